//! Users that jobs run as.

use std::env;
use std::ffi::CString;
use std::path::PathBuf;

use nix::unistd::{Gid, Uid, User as Account};

/// User as whom a job runs.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) name: String,
    pub(crate) id: Uid,
    /// Group of the account, which files that the user makes belong to.
    pub(crate) group: Gid,
    pub(crate) home: PathBuf,
}

impl User {
    pub(crate) fn named(name: &str) -> Result<Self, String> {
        match Account::from_name(name) {
            Ok(Some(account)) => Ok(account.into()),
            Ok(None) => Err(format!("there is no user named {name}")),
            Err(error) => Err(format!("the user {name} cannot be looked up: {error}")),
        }
    }

    /// Returns the user who runs this program. A user without an account is taken from `LOGNAME`
    /// and `HOME`.
    pub(crate) fn current() -> Result<Self, String> {
        let id = Uid::effective();
        match Account::from_uid(id) {
            Ok(Some(account)) => return Ok(account.into()),
            Ok(None) => {}
            Err(error) => return Err(format!("the user {id} cannot be looked up: {error}")),
        }
        let (Ok(name), Some(home)) = (env::var("LOGNAME"), env::var_os("HOME")) else {
            let what = "nor are both LOGNAME and HOME set in the environment";
            return Err(format!("there is no user with the number {id}, {what}"));
        };
        Ok(Self { name, id, group: Gid::effective(), home: home.into() })
    }

    /// Returns all groups that the user is in, the same as `initgroups`.
    pub(crate) fn groups(&self) -> Result<Vec<libc::gid_t>, String> {
        let name = CString::new(&*self.name).map_err(|error| error.to_string())?;
        let mut groups: Vec<libc::gid_t> = vec![0; 64];
        loop {
            let mut count = libc::c_int::try_from(groups.len()).map_err(|_| "too many groups")?;
            // SAFETY: the name ends with a zero byte, and there is room for `count` numbers.
            // Apple's have another sign.
            let found = unsafe {
                libc::getgrouplist(
                    name.as_ptr(),
                    self.group.as_raw() as _,
                    groups.as_mut_ptr().cast(),
                    &raw mut count,
                )
            };
            if found >= 0 {
                groups.truncate(usize::try_from(count).unwrap_or(0));
                return Ok(groups);
            }
            groups.resize(groups.len() * 2, 0);
        }
    }
}

impl From<Account> for User {
    fn from(account: Account) -> Self {
        let Account { name, uid, gid, dir, .. } = account;
        Self { name, id: uid, group: gid, home: dir }
    }
}
