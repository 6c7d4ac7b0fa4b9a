//! [`Tables`]: which schema the tables are in, and statements that name it.

use std::borrow::Cow;
use std::sync::Arc;

use crate::error::{StoreError, StoreErrorKind};
use crate::store::Result;

/// Schema that the texts of all statements name, and that of the tables by default.
const DEFAULT: &str = "tourbillon";

/// Longest name of a schema, in bytes: PostgreSQL cuts a longer one.
const NAME_MAX: usize = 63;

/// Tables of one store, by the schema that they are in.
///
/// A database has room for several sets of tables, each in a schema of its own, which know nothing
/// of each other: timers, nodes, notices and versions are the set's alone. The default is the
/// schema `tourbillon`. A store has another by the parameter `schema` of
/// [its address](super::Postgres::connect).
///
/// # Examples
///
/// ```
/// use tourbillon_durable::store::postgres::Tables;
///
/// assert_eq!(Tables::default().schema(), "tourbillon");
/// assert_eq!(Tables::in_schema("east_2")?.schema(), "east_2");
/// Tables::in_schema("East").unwrap_err();
/// # Ok::<(), tourbillon_durable::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tables(Arc<str>);

impl Tables {
    /// Tables in the schema `name`, which need not be there.
    ///
    /// # Errors
    ///
    /// [`Invalid`](StoreErrorKind::Invalid) unless `name` has 1 to 63 of the characters `a` to `z`,
    /// `0` to `9` and `_`, does not begin with a digit, and is none of the server's own (`pg_` and
    /// more, `information_schema`).
    pub fn in_schema(name: &str) -> Result<Self> {
        let is_good = |byte: u8| byte == b'_' || byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let is_name = (1..=NAME_MAX).contains(&name.len())
            && name.bytes().all(is_good)
            && !name.starts_with(|first: char| first.is_ascii_digit());
        if !is_name || name.starts_with("pg_") || name == "information_schema" {
            let why = format!(
                "`schema` has 1 to {NAME_MAX} of the characters a to z, 0 to 9 and _, begins with \
                 no digit, and is none of the server's own: not `{name}`"
            );
            return Err(StoreError::new(StoreErrorKind::Invalid, why));
        }
        Ok(Self(name.into()))
    }

    /// Returns the schema's name, also the name of the channel of its notices.
    pub fn schema(&self) -> &str {
        &self.0
    }

    /// The schema's name as an identifier.
    pub(super) fn quoted(&self) -> String {
        format!("\"{}\"", self.0)
    }

    /// Returns a statement on these tables: `sql` with the names of the default schema replaced.
    pub(super) fn fill<'a>(&self, sql: &'a str) -> Cow<'a, str> {
        if &*self.0 == DEFAULT {
            return Cow::Borrowed(sql);
        }
        Cow::Owned(sql.replace("tourbillon.", &(self.quoted() + ".")))
    }
}

impl Default for Tables {
    /// Tables in the schema `tourbillon`.
    fn default() -> Self {
        Self(DEFAULT.into())
    }
}

#[cfg(test)]
mod tests {
    use super::Tables;
    use crate::error::StoreErrorKind;

    #[test]
    fn a_statement_names_the_schema_of_its_tables() {
        let sql = "SELECT tourbillon.once('tourbillon', to_regclass('tourbillon.timer'))";
        assert_eq!(Tables::default().fill(sql), sql);
        let filled = "SELECT \"user\".once('tourbillon', to_regclass('\"user\".timer'))";
        assert_eq!(Tables::in_schema("user").unwrap().fill(sql), filled);
    }

    #[test]
    fn a_name_that_would_have_to_be_escaped_or_is_cut_is_refused() {
        for name in ["a", "_", "east_2", "user", &"x".repeat(63)] {
            assert_eq!(Tables::in_schema(name).unwrap().schema(), name);
        }
        let long = "x".repeat(64);
        for name in ["", "2", "East", "a b", "a\"b", "a$$", "ä", "a.b", "a\0", "pg_a", &long] {
            let error = Tables::in_schema(name).unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{name}");
        }
        Tables::in_schema("information_schema").unwrap_err();
    }
}
