//! Text from outside, for people.

/// Returns `text` with escapes for all that a terminal would act upon, and for bytes that are not
/// UTF-8. A tab stays.
///
/// # Examples
///
/// ```
/// assert_eq!(tourbillon_crontab::visible(b"a\tb\x1b[2J\xff"), "a\tb\\u{1b}[2J\\xff");
/// ```
pub fn visible(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            if (c.is_control() && c != '\t') || directs(c) {
                shown.extend(c.escape_default());
            } else {
                shown.push(c);
            }
        }
        for byte in chunk.invalid() {
            shown.push_str(&format!("\\x{byte:02x}"));
        }
    }
    shown
}

/// Returns whether a character breaks lines or changes the direction of the text after it.
fn directs(c: char) -> bool {
    matches!(
        c,
        '\u{61c}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
    )
}
