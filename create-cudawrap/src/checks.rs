//! What is not wrapped, with the reason and the remedy. Pure: decides on facts that
//! others have gathered. `--force` overrides what is a matter of policy (package,
//! AppArmor, network file system), never identity or safety.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use getgpu_common::error::{Failure, Kind};

use crate::facts::{Facts, Keeper};
use crate::inspect::Entry;
use crate::names::{self, ADDED};

/// Names that are never worked on, whatever lies there.
pub fn name(name: &OsStr) -> Result<(), Failure> {
    if names::is_own(name) {
        return Err(own(&name.to_string_lossy()));
    }
    match names::original(name) {
        Some(app) => Err(
            refused("is the name that a wrapped program has, not a path to wrap")
                .hint(format!("did you mean {}?", app.to_string_lossy())),
        ),
        None => Ok(()),
    }
}

/// A name that leaves no room for the ones beside it.
pub fn length(name: &OsStr, longest: u64) -> Result<(), Failure> {
    // 255 is what every caller of readdir copes with; some file systems allow less, none
    // that matters more.
    let longest = usize::try_from(longest).unwrap_or(usize::MAX).min(255);
    if name.as_bytes().len() + ADDED <= longest {
        return Ok(());
    }
    let message = format!(
        "name too long: at most {} bytes",
        longest.saturating_sub(ADDED)
    );
    Err(refused(&message).hint("wrap a link to it that has a shorter name"))
}

/// A directory in which another user could swap what root has just looked at.
pub fn directory(keeper: Keeper) -> Result<(), Failure> {
    let others =
        keeper.mode & 0o002 != 0 || (keeper.mode & 0o020 != 0 && keeper.gid != 0) || keeper.listed;
    if !keeper.root || (keeper.uid == 0 && !others) {
        return Ok(());
    }
    let hint = if keeper.uid == 0 {
        "make the directory writable for root only: chmod go-w".to_owned()
    } else {
        format!(
            "run this command as the directory's owner: setpriv --reuid {} --regid {} --clear-groups create-cudawrap ...",
            keeper.uid, keeper.gid
        )
    };
    Err(refused("is in a directory that users other than root can write to").hint(hint))
}

/// What speaks against wrapping a program that is not wrapped.
pub fn program(app: &Entry, facts: &Facts, force: bool) -> Result<(), Failure> {
    if let Some(name) = &facts.own {
        return Err(own(name));
    }
    if !app.runs {
        return Err(refused("is not executable").hint("chmod +x, if it is a program"));
    }
    if force {
        return Ok(());
    }
    if let Some(profile) = &facts.apparmor {
        return Err(refused(&format!(
            "is under the AppArmor profile {profile}, which would not apply to it any more"
        ))
        .hint("use --link-dir; --force wraps it anyway, and the profile then has no effect"));
    }
    if let Some(system) = facts.network {
        let message = format!(
            "is on {system}, and cudawrap is not: nodes without cudawrap would lose the program"
        );
        return Err(refused(&message)
            .hint("copy cudawrap and getgpu there, and name that cudawrap with --wrapper"));
    }
    match &facts.owner {
        Some(owner) if !facts.diverted => Err(refused(&format!(
            "belongs to the package {}, whose next upgrade would replace the link",
            owner.package
        ))
        .hint("use --link-dir, which leaves it alone; on Debian --divert; or --force")),
        _ => Ok(()),
    }
}

/// Our own programs.
pub fn own(name: &str) -> Failure {
    refused(&format!("is {name} itself")).hint("wrap the programs that use a GPU")
}

fn refused(why: &str) -> Failure {
    Failure::new(Kind::Refused, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inspect::Kind as Sort;
    use crate::package::Owner;

    #[test]
    fn names_that_are_never_touched() {
        for bad in [
            "cudawrap",
            "getgpu",
            "create-cudawrap",
            "create_cudawrap",
            "CUDAWRAP_x",
            ".CUDAWRAP_x~",
        ] {
            assert!(name(OsStr::new(bad)).is_err(), "{bad}");
        }
        assert!(name(OsStr::new("cudawrapper")).is_ok());
        assert!(length(OsStr::new(&"x".repeat(244)), 255).is_ok());
        assert!(length(OsStr::new(&"x".repeat(245)), 255).is_err());
        assert!(length(OsStr::new(&"x".repeat(245)), 510).is_err());
        assert!(length(OsStr::new(&"x".repeat(133)), 143).is_err());
    }

    #[test]
    fn root_keeps_out_of_directories_that_others_can_write() {
        let mine = Keeper {
            root: true,
            uid: 0,
            gid: 0,
            mode: 0o755,
            listed: false,
        };
        assert!(directory(mine).is_ok());
        assert!(
            directory(Keeper {
                listed: true,
                ..mine
            })
            .is_err()
        );
        assert!(
            directory(Keeper {
                mode: 0o775,
                ..mine
            })
            .is_ok()
        );
        assert!(
            directory(Keeper {
                mode: 0o775,
                gid: 50,
                ..mine
            })
            .is_err()
        );
        assert!(
            directory(Keeper {
                mode: 0o1777,
                ..mine
            })
            .is_err()
        );
        assert!(directory(Keeper { uid: 1000, ..mine }).is_err());
        assert!(
            directory(Keeper {
                root: false,
                uid: 1000,
                mode: 0o777,
                ..mine
            })
            .is_ok()
        );
    }

    #[test]
    fn force_overrides_policy_and_nothing_else() {
        let app = Entry {
            kind: Sort::File,
            runs: true,
            mode: 0o755,
            ..Entry::ABSENT
        };
        let owner = Some(Owner {
            package: "amber".into(),
            path: "/opt/x".into(),
        });
        let policy = [
            Facts {
                owner,
                ..Facts::default()
            },
            Facts {
                apparmor: Some("/opt/x".into()),
                ..Facts::default()
            },
            Facts {
                network: Some("NFS"),
                ..Facts::default()
            },
        ];
        for facts in policy {
            assert!(program(&app, &facts, false).is_err(), "{facts:?}");
            assert!(program(&app, &facts, true).is_ok(), "{facts:?}");
            let diverted = Facts {
                diverted: true,
                ..facts
            };
            assert_eq!(
                program(&app, &diverted, false).is_ok(),
                diverted.owner.is_some()
            );
        }
        let own = Facts {
            own: Some("getgpu".into()),
            ..Facts::default()
        };
        assert!(program(&app, &own, true).is_err());
        assert!(
            program(
                &Entry {
                    runs: false,
                    ..app.clone()
                },
                &Facts::default(),
                true
            )
            .is_err()
        );
    }
}
