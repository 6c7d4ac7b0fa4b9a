//! [`Migration`]: a step of a store's tables, and the steps that a build takes.
//!
//! Tables only go forward. They say which version they have, and the oldest build that works with
//! them: so a build and the next run side by side if the migration between them allows it.

use crate::error::{StoreError, StoreErrorKind};

/// Step from one version of the tables to the next, in one transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Migration {
    /// Version of the tables after the step, from 1.
    pub(super) version: u32,
    /// Version of the oldest build that works with the tables after the step.
    pub(super) oldest: u32,
    /// Statements of the step.
    pub(super) sql: &'static str,
}

/// Version that tables say they have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Version of the tables, 0 if there are none.
    pub(super) version: u32,
    /// Version of the oldest build that works with them.
    pub(super) oldest: u32,
}

/// Returns the version of the tables that a build with these migrations makes.
pub(super) const fn newest(migrations: &[Migration]) -> u32 {
    migrations.len() as u32
}

/// Returns whether their versions count from one, and none needs a later build than its own.
#[cfg(test)]
pub(super) fn are_in_order(migrations: &[Migration]) -> bool {
    let is_in_order = |(migration, version): (&Migration, u32)| {
        migration.version == version && migration.oldest <= version
    };
    migrations.iter().zip(1..).all(is_in_order)
}

impl Found {
    /// Returns the next step of these tables, `None` if a build with these migrations takes none.
    ///
    /// # Errors
    ///
    /// [`Schema`](StoreErrorKind::Schema) if such a build is too old for the tables.
    pub(super) fn step(self, migrations: &[Migration]) -> Result<Option<&Migration>, StoreError> {
        let Self { version, oldest } = self;
        let build = newest(migrations);
        if oldest > build {
            return Err(refusal(format!(
                "they have version {version}, which works with builds from version {oldest} on; \
                 this build has {build}"
            )));
        }
        Ok(migrations.get(version as usize))
    }

    /// Fails unless a build with these migrations works with the tables as they are.
    ///
    /// # Errors
    ///
    /// [`Schema`](StoreErrorKind::Schema) if the build or the tables are too old.
    pub(super) fn check(self, migrations: &[Migration]) -> Result<(), StoreError> {
        match self.step(migrations)? {
            None => Ok(()),
            Some(_) => Err(refusal(format!(
                "they have version {}, and this build needs {}",
                self.version,
                newest(migrations)
            ))),
        }
    }
}

/// Returns an error about tables that are not for this build.
pub(super) fn refusal(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Schema, why)
}

#[cfg(test)]
mod tests {
    use super::{Found, Migration, newest};

    const fn to(version: u32, oldest: u32) -> Migration {
        Migration { version, oldest, sql: "" }
    }

    const BUILD: [Migration; 2] = [to(1, 1), to(2, 1)];

    #[test]
    fn tables_are_taken_one_step_at_a_time_and_no_further_than_the_build() {
        let step = |version| {
            let found = Found { version, oldest: version.min(1) };
            found.step(&BUILD).unwrap().map(|step| step.version)
        };
        assert_eq!([step(0), step(1), step(2), step(3)], [Some(1), Some(2), None, None]);
        assert_eq!(newest(&BUILD), 2);
    }

    #[test]
    fn a_build_refuses_tables_that_are_too_new_and_those_that_lack_a_step() {
        let later = Found { version: 4, oldest: 3 };
        let error = later.step(&BUILD).unwrap_err().to_string();
        assert!(error.ends_with("builds from version 3 on; this build has 2"), "{error}");
        later.check(&BUILD).unwrap_err();
        Found { version: 4, oldest: 2 }.check(&BUILD).unwrap();
        let error = Found { version: 1, oldest: 1 }.check(&BUILD).unwrap_err().to_string();
        assert!(error.ends_with("they have version 1, and this build needs 2"), "{error}");
    }
}
