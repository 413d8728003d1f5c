//! The protobuf wire format: a sequence of fields.

use prost::encoding::decode_varint;
use tonic::Status;

/// The wire type of a field.
const VARINT: u64 = 0;
const EIGHT_BYTES: u64 = 1;
pub(crate) const WITH_LENGTH: u64 = 2;
const FOUR_BYTES: u64 = 5;

/// A field of a message, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Field<'a> {
    Number(u64, u64),
    /// A string, or a message.
    Bytes(u64, &'a [u8]),
    /// Another field, which is ignored.
    Other,
}

/// The length of the complete fields.
pub(crate) fn whole_fields(data: &[u8]) -> Result<usize, Status> {
    let mut end = 0;
    while let Some(length) = length(&data[end..])?.filter(|length| *length <= data.len() - end) {
        end += length;
    }
    Ok(end)
}

/// The length of the first field, if enough of it is present.
pub(crate) fn length(data: &[u8]) -> Result<Option<usize>, Status> {
    let beginning = beginning(data)?;
    Ok(beginning.map(|beginning| beginning.length.saturating_add(beginning.follow)))
}

/// Takes the first field of a message; `None` at its end.
pub(crate) fn next<'a>(message: &mut &'a [u8]) -> Result<Option<Field<'a>>, Status> {
    if message.is_empty() {
        return Ok(None);
    }
    let beginning =
        beginning(message)?.filter(|first| first.follow <= message.len() - first.length);
    let Some(FieldHeader { number, kind, value, length, follow }) = beginning else {
        return Err(malformed("a message that ends within a field"));
    };
    let (bytes, rest) = message[length..].split_at(follow);
    *message = rest;
    Ok(Some(match kind {
        VARINT => Field::Number(number, value),
        WITH_LENGTH => Field::Bytes(number, bytes),
        _ => Field::Other,
    }))
}

/// The header of a field.
pub(crate) struct FieldHeader {
    pub(crate) number: u64,
    pub(crate) kind: u64,
    /// The value of a number.
    value: u64,
    /// The length of the header, and of the content after it.
    length: usize,
    pub(crate) follow: usize,
}

/// The header of the first field; `None` if it is incomplete.
pub(crate) fn beginning(data: &[u8]) -> Result<Option<FieldHeader>, Status> {
    let mut rest = data;
    let Some(key) = varint(&mut rest)? else { return Ok(None) };
    let (number, kind) = (key >> 3, key & 7);
    let (value, follow) = match kind {
        EIGHT_BYTES => (0, 8),
        FOUR_BYTES => (0, 4),
        VARINT | WITH_LENGTH => match varint(&mut rest)? {
            Some(value) if kind == VARINT => (value, 0),
            Some(length) => (0, usize::try_from(length).unwrap_or(usize::MAX)),
            None => return Ok(None),
        },
        _ => return Err(malformed(&format!("a field of the unknown kind {kind}"))),
    };
    let length = data.len() - rest.len();
    Ok(Some(FieldHeader { number, kind, value, length, follow }))
}

/// A number; `None` if it is incomplete.
fn varint(data: &mut &[u8]) -> Result<Option<u64>, Status> {
    const LONGEST: usize = 10;
    // The most frequent case.
    if let [byte @ 0..0x80, rest @ ..] = *data {
        *data = rest;
        return Ok(Some(u64::from(*byte)));
    }
    let whole = data.iter().take(LONGEST).any(|byte| byte & 0x80 == 0);
    if !whole && data.len() < LONGEST {
        return Ok(None);
    }
    decode_varint(data).map(Some).map_err(|error| malformed(&format!("a fault: {error}")))
}

fn malformed(fault: &str) -> Status {
    Status::internal(format!("the runtime's answer has {fault}"))
}

#[cfg(test)]
mod tests {
    use tonic::Code;

    use super::*;

    const FIELDS: [u8; 21] =
        [8, 0x96, 1, 0x11, 1, 2, 3, 4, 5, 6, 7, 8, 0x1a, 2, 1, 1, 0x25, 1, 2, 3, 4];

    #[test]
    fn fields_are_read_by_wire_type_and_unknown_types_are_errors() {
        let ends = [3, 12, 16, 21];
        for length in 0..=FIELDS.len() {
            let end = ends.iter().rev().find(|end| **end <= length).copied().unwrap_or(0);
            assert_eq!(whole_fields(&FIELDS[..length]).unwrap(), end, "{length}");
        }
        for wrong in [&[0x0b, 1][..], &[0xff; 11]] {
            assert_eq!(whole_fields(wrong).unwrap_err().code(), Code::Internal, "{wrong:?}");
        }
    }

    #[test]
    fn fields_are_read_in_order_and_a_truncated_field_is_an_error() {
        let expected =
            [Field::Number(1, 150), Field::Other, Field::Bytes(3, &[1, 1]), Field::Other];
        let mut message = &FIELDS[..];
        for field in expected {
            assert_eq!(next(&mut message).unwrap(), Some(field));
        }
        assert_eq!(next(&mut message).unwrap(), None);
        for length in [1, 2, 4, 11, 13, 15, 20] {
            let mut message = &FIELDS[..length];
            let error = std::iter::from_fn(|| next(&mut message).transpose()).find_map(Result::err);
            assert_eq!(error.unwrap().code(), Code::Internal, "{length}");
        }
    }
}
