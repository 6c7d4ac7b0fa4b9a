//! Errors of the deserializer, in the words of JSON.
//!
//! Their texts name types of Rust, and positions in a text that a client may never have seen. A
//! client's text names a field, its value, and the expected value.

/// Most characters of a value that an error shows.
const SHOWN: usize = 64;

/// Returns the field of an error, and its fault. `path` leads to where reading stopped; `.` is the
/// whole.
pub(super) fn fault(path: &str, error: &str) -> (String, String) {
    let field = path.to_owned();
    let within = |name: &str| match (path, name.trim_matches('`')) {
        (".", name) => name.to_owned(),
        (path, name) => format!("{path}.{name}"),
    };
    if let Some(name) = error.strip_prefix("missing field ") {
        return (within(name), "it is missing".to_owned());
    }
    if let Some(name) = error.strip_prefix("duplicate field ") {
        return (within(name), "it is there twice".to_owned());
    }
    if let Some(rest) = error.strip_prefix("unknown field ") {
        let why = match rest.split_once(", expected ") {
            Some((_, known)) => format!("it is not known: fields are {}", names(known)),
            None => "it is not known".to_owned(),
        };
        return (field, why);
    }
    if let Some(rest) = error.strip_prefix("unknown variant ") {
        let (name, known) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
        let name = cut(name.trim_start_matches('`'));
        return (field, format!("it is `{name}`, and one of {} is expected", names(known)));
    }
    if error.starts_with("invalid length ") {
        return (field, "it is a list, and an object is expected".to_owned());
    }
    let kinds = ["invalid type: ", "invalid value: "];
    let found = kinds.iter().find_map(|kind| error.strip_prefix(kind)?.rsplit_once(", expected "));
    match found {
        Some(("unit variant", _)) => {
            (field, "a value is expected with it, in an object".to_owned())
        }
        Some((found, expected)) => {
            let (found, expected) = (self::found(found), self::expected(expected));
            (field, format!("it is {found}, and {expected} is expected"))
        }
        // How numbers are read of a query.
        None if error.contains(" integer from ")
            || error.contains("invalid digit ")
            || error.starts_with("number too ") =>
        {
            (field, "it is not a whole number, or is too large".to_owned())
        }
        // In words of ours.
        None => (field, error.to_owned()),
    }
}

/// Names as a list in a sentence.
fn names(known: &str) -> String {
    known.strip_prefix("one of ").unwrap_or(known).replace(" or ", ", ")
}

fn found(text: &str) -> String {
    let number = ["integer `", "floating point `"].iter().find_map(|kind| text.strip_prefix(kind));
    match text {
        "map" => "an object".to_owned(),
        "sequence" => "a list".to_owned(),
        "null" | "unit value" => "`null`".to_owned(),
        _ => match (number, text.strip_prefix("string "), text.strip_prefix("boolean ")) {
            (Some(number), ..) => format!("the number {}", cut(number.trim_end_matches('`'))),
            (_, Some(text), _) => format!("the string {}", cut(text)),
            (.., Some(value)) => value.to_owned(),
            _ => "something else".to_owned(),
        },
    }
}

fn expected(text: &str) -> &'static str {
    match text {
        "a boolean" => "`true` or `false`",
        "a string" | "string" => "a string",
        "u8" => "a whole number from 0 to 255",
        "u32" => "a whole number from 0 to 4294967295",
        "u64" | "usize" => "a whole number that is not negative",
        "a sequence" => "a list",
        "string or map" => "a name or an object with one field",
        "map with a single key" => "an object with one field",
        "unit" => "a name without a value",
        text if text.starts_with("struct ") || text == "a map" => "an object",
        _ => "a value of another kind",
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}..", &text[..end]),
        None => text.to_owned(),
    }
}
