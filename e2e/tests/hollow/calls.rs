//! What a quiet node with many pods costs the runtime.
