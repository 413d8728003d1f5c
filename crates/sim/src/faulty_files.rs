//! The interceptor of file calls: it injects faults, records calls, and kills the agent during calls.

use std::any::Any;
use std::borrow::Cow;
use std::io;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use model::intercept::{Args, Call, FileCall, Intercepted, Interceptor, Kind};
use model::ports::files::{DirectoryChange, DirectoryWatch, Entry, FileError, HostFiles};
use podspec::Origin;

use crate::faulty::{Attempt, faulty};
use crate::history::Event;
use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::removal::Removal;

/// The file calls of one agent.
#[derive(Debug)]
pub(crate) struct FaultyFiles {
    outside: Arc<Outside>,
    life: Arc<Life>,
}

impl FaultyFiles {
    /// The file port of this agent.
    pub(crate) fn files(outside: &Arc<Outside>, life: &Arc<Life>) -> Arc<dyn HostFiles> {
        let faults = Self { outside: Arc::clone(outside), life: Arc::clone(life) };
        let files: Arc<dyn HostFiles> = Arc::clone(&outside.files) as _;
        Arc::new(Intercepted::new(files, &Arc::new(faults)))
    }

    /// Records a result. A watch loses some of its changes.
    fn answered<T: Any>(&self, call: &FileCall<'_>, answer: T) -> T {
        let mut answer = Some(answer);
        let any: &mut dyn Any = &mut answer;
        match call {
            FileCall::Entries { directory } => {
                let entries = any.downcast_ref::<Option<Vec<Entry>>>().into_iter().flatten();
                let names = entries.flatten().map(|entry| entry.name.clone()).collect();
                self.outside.record(Event::Listed(directory.to_path_buf(), names));
            }
            FileCall::ReadVersion { path, .. } => {
                self.outside.record(Event::OriginRead(Origin::File(path.to_path_buf())));
            }
            _ => {}
        }
        if let Some(watch) = any.downcast_mut::<Option<Box<dyn DirectoryWatch>>>() {
            let outside = Arc::clone(&self.outside);
            let faulty = watch.take().map(|watch| FaultyWatch { watch, outside });
            *watch = faulty.map(|watch| Box::new(watch) as _);
        }
        answer.expect("the result keeps its type")
    }
}

impl Interceptor<dyn HostFiles> for FaultyFiles {
    async fn around<T: Any + Send>(
        &self,
        call: &Call<'_>,
        run: impl Future<Output = Result<T, FileError>> + Send,
    ) -> Result<T, FileError> {
        let Args::File(file_call) = call.args else { unreachable!("a call of files") };
        let (operation, path) = (operation(&file_call), path(&file_call));
        let _removal = match file_call {
            FileCall::Remove { verdict, .. } => {
                Some(Removal::new(&self.outside, &self.life, verdict))
            }
            _ => None,
        };
        if matches!(operation, "write" | "remove") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = name.get(..12).unwrap_or(&name);
            self.outside.say(format!("agent {}  {operation} {name}", self.life.number));
        }
        let point =
            if call.kind == Kind::Read { FaultPoint::FileRead } else { FaultPoint::FileWrite };
        let what = format!("{operation} {}", path.display());
        let broken = || {
            let source = io::Error::other("input/output error");
            FileError { operation, path: path.to_path_buf(), source }
        };
        let attempt = Attempt { point, what: &what, broken };
        let answer = faulty(&self.outside, &self.life, attempt, run).await;
        if let (FileCall::List { directory }, Err(_)) = (file_call, &answer) {
            self.outside.record(Event::DirectoryUnreadable(directory.to_path_buf()));
        }
        answer.map(|answer| self.answered(&file_call, answer))
    }
}

fn operation(call: &FileCall<'_>) -> &'static str {
    match call {
        FileCall::List { .. } | FileCall::Entries { .. } => "list",
        FileCall::Read { .. } | FileCall::ReadVersion { .. } | FileCall::ReadEnd { .. } => "read",
        FileCall::Look { .. } => "stat",
        FileCall::Watch { .. } => "watch",
        FileCall::WriteDurably { .. } => "write",
        FileCall::Overwrite { .. } => "overwrite",
        FileCall::RemoveWritten { .. } | FileCall::Remove { .. } => "remove",
        FileCall::CreateDirectory { .. } => "create directory",
        FileCall::CreateFile { .. } => "create file",
        FileCall::Link { .. } => "link",
    }
}

fn path<'a>(call: &FileCall<'a>) -> Cow<'a, Path> {
    match *call {
        FileCall::List { directory }
        | FileCall::Entries { directory }
        | FileCall::Watch { directory } => directory.into(),
        FileCall::Read { path, .. }
        | FileCall::Look { path }
        | FileCall::ReadVersion { path, .. }
        | FileCall::WriteDurably { path, .. }
        | FileCall::Overwrite { path, .. }
        | FileCall::RemoveWritten { path } => path.into(),
        FileCall::CreateDirectory { root, below, .. }
        | FileCall::CreateFile { root, below, .. }
        | FileCall::ReadEnd { root, below, .. } => root.join(below).into(),
        FileCall::Link { link, .. } => link.into(),
        FileCall::Remove { root, .. } => root.into(),
    }
}

/// A watch of a directory that loses some changes.
#[derive(Debug)]
struct FaultyWatch {
    watch: Box<dyn DirectoryWatch>,
    outside: Arc<Outside>,
}

#[async_trait]
impl DirectoryWatch for FaultyWatch {
    async fn next_change(&mut self) -> Option<DirectoryChange> {
        loop {
            let change = self.watch.next_change().await?;
            if self.outside.fault(FaultPoint::FileHint).is_none() {
                return Some(change);
            }
            self.outside.say("FAULT    a directory change is lost");
        }
    }
}
