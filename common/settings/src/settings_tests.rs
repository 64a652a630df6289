use std::ffi::OsString;
use std::time::Duration;

use nix::unistd::{Group, User, getegid, geteuid};

use super::*;
use crate::allowed::DeviceList;
use crate::{Environment, Loaded, keys};
use getgpu_linux::users;
use getgpu_model::{Device, Failure, Kind, Uuid};

fn load(system: &str, user: &str) -> Result<Loaded, Failure> {
    let read = |files: &Environment| Loaded::read(files, Some("eddy_cuda10"));
    with_files(system, "", user, read)
}

/// What `read` makes of files of the system, a prefix and a user.
fn with_files<T>(system: &str, prefix: &str, user: &str, read: impl Fn(&Environment) -> T) -> T {
    // Whatever the umask is: what a group can write is not trusted.
    let mode = |mode| <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(mode);
    let dir = tempfile::Builder::new()
        .permissions(mode(0o700))
        .tempdir()
        .unwrap();
    let etc = dir.path().join("etc/getgpu");
    std::fs::create_dir_all(&etc).unwrap();
    std::fs::set_permissions(&etc, mode(0o755)).unwrap();
    let write = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, mode(0o644)).unwrap();
        path
    };
    let files = Environment {
        system_file: write("system.toml", system),
        // The system's own would have to be root's.
        system_file_must_exist: true,
        prefix_file: Some(write("etc/getgpu/config.toml", prefix)),
        user_file: Some(write("user.toml", user)),
        ..Environment::default()
    };
    read(&files)
}

#[test]
fn later_wins_and_policy_is_the_systems_alone() {
    let system = "linger = 7\nreserve_for = \"2m\"\nidle_memory = \"1G\"";
    let settings = load(system, "reserve_for = \"1.5s\"").unwrap().settings;
    assert_eq!(settings.linger, Duration::from_secs(7));
    assert_eq!(settings.reserve_for, Duration::from_millis(1500));
    assert_eq!(settings.idle_memory, Some(1 << 30));
    let text = load("", "\n\nallowed = []").unwrap_err().message;
    assert!(
        text.contains("user.toml:3:1") && text.contains("administrator"),
        "{text}"
    );
}

/// Whichever file is wrong: a user's mistake takes none of the site's policy away.
#[test]
fn what_can_be_understood_of_the_sites_files_holds_beside_what_is_wrong() {
    let (system, prefix) = ("linger = 7", "reserve_for = 9\n[slurm]\nstrict = true");
    for (system, prefix, user) in [
        (system, prefix, "linger = \"x\""),
        (system, &format!("wait = \"soon\"\n{prefix}"), ""),
        (&format!("wait = \"soon\"\n{system}"), prefix, ""),
    ] {
        assert!(with_files(system, prefix, user, |files| Loaded::read(files, None)).is_err());
        let settings = with_files(system, prefix, user, Loaded::read_in_part).settings;
        assert_eq!(settings.linger, Duration::from_secs(7));
        assert_eq!(settings.reserve_for, Duration::from_secs(9));
        assert!(settings.slurm.strict);
    }
    // Nothing of a file that is no TOML, and all of the other.
    let settings = with_files("linger =", prefix, "", Loaded::read_in_part).settings;
    assert_eq!(settings.linger, Settings::default().linger);
    assert!(settings.slurm.strict);
}

#[test]
fn what_is_wrong_is_told_with_line_and_column() {
    #[rustfmt::skip]
    let cases = [
        ("type = \"mig\"\nmin-memry = 3", "system.toml:2:1", "unknown setting `min-memry`"),
        ("linger = \"abc\"", "system.toml:1:10", "`abc` is not a time"),
        ("linger = -1", "system.toml:1:10", "`-1` is not a time"),
        ("type = \"migs\"", "system.toml:1:8", "migs: not one of auto, mig"),
        ("type = [\"mig\", \"gpu\"]", "system.toml:1:8", "expected one value"),
        ("share = { a = 1 }", "system.toml:1:9", "not a value that a setting can have"),
        ("count = 0", "system.toml:1:9", "`0` is not a whole number of 1 or more"),
        ("type = \"mig\"\n[newer]\ndate = 1979-05-27", "system.toml:2:", "unknown setting `newer`"),
        ("program = 3", "system.toml:1:1", "expected [program.\"NAME\"]"),
        ("[program.x]\nallowed = []", "system.toml:2:1", "administrator only"),
        ("[program.other]\nwait = \"soon\"", "system.toml:2:8", "`soon` is not a time"),
        ("[program.other]\nwiat = 3", "system.toml:2:1", "unknown setting `wiat`"),
        ("[group.staff]\nexcluded = []", "system.toml:2:1", "`excluded` is not set by group"),
        ("[user.ana]\nmax_hold = \"soon\"", "system.toml:2:12", "`soon` is not a time"),
        ("type = ", "system.toml:1:8", ""),
    ];
    for (text, place, why) in cases {
        let failure = load(text, "").and_then(Loaded::strict).unwrap_err();
        assert!(
            failure.message.contains(place) && failure.message.contains(why),
            "{text}: {failure}"
        );
        assert!(!failure.message.contains('\n'));
        assert_eq!(failure.kind, Kind::Usage);
    }
}

/// A wrapper that is older than the file warns and uses the rest of it.
#[test]
fn an_unknown_setting_may_have_any_value() {
    #[rustfmt::skip]
    let cases = [
        "[newer]\nx = 1", "newer = { x = 1 }", "newer = 1979-05-27", "newer = [[1]]",
        "newer = 0xff", "[program.\"eddy*\"]\nnewer = {}\nwait = 7",
        "[program.\"eddy*\".newer]\nx = 1",
    ];
    for text in cases {
        let text = format!("reserve_for = \"2m\"\n{text}");
        let loaded = load(&text, "").unwrap();
        assert_eq!(loaded.settings.reserve_for, Duration::from_secs(120));
        assert_eq!(loaded.unknown.len(), 1, "{text}: {:?}", loaded.unknown);
        assert!(
            loaded.unknown[0]
                .message
                .contains("unknown setting `newer`")
        );
        assert_eq!(loaded.strict().unwrap_err().kind, Kind::Usage);
    }
}

#[test]
fn every_key_of_the_table_can_be_read() {
    let text = "allowed = []\nallowed_file = \"/x\"\nexcluded = [\"x\"]\nlock = \"/x\"\nlibrary = \"/x\"\ngetgpu = \"/x\"\nidle_memory = 1\n\
                ignore_processes = []\nmemory_decides = true\nnvml_timeout = 1\nwithout_grant = \"none\"\nunshared = \"fail\"\ntype = \"any\"\nreserve_for = 1\n\
                linger = 1\nwhen_taken = \"fail\"\nwhen_no_gpu = \"fail\"\nmax_per_user = 3\nmax_hold = \"1h\"\nmax_idle = \"1h\"\nidle_action = \"end\"\nmax_wait = 60\n\
                count = 2\nprofile = [\"1g.5gb\"]\nmodel = [\"H100\"]\nprefer_model = [\"H100\"]\nmin_memory = \"10G\"\ngpu = [0, \"GPU-1\"]\npolicy = \"pack\"\n\
                share = 0.5\nwait = \"forever\"\nframework_memory = false\nmps = true\nbind = true\nvisible = \"all\"\nnames = \"index\"\nenforce_memory = \"always\"\nlog = \"syslog\"\n\
                auto = \"off\"\nauto_except = [\"x\"]\nauto_none = \"exit\"\nauto_wait = \"10m\"\nargv0 = \"file\"\nlease = \"first_call\"\nbackground_programs = [\"x\"]\n\
                [slurm]\ntasks = \"all\"\nstrict = true\ntaken = \"run\"\njob_options = false\nauto = true\ntimeout = 9\nshares = []\n\
                options = \"--gpu 3\"\nwait = 9\nold = 9";
    let loaded = load(text, "").unwrap().strict().unwrap();
    let places = &loaded.settings.places;
    let missing = keys::all().filter(|key| !places.contains_key(key.name));
    let missing: Vec<_> = missing.map(|key| key.name).collect();
    assert!(
        missing.is_empty(),
        "give these a value in the text of this test, not the built-in one: {missing:?}"
    );
    let built_in = Settings::default();
    for key in keys::all() {
        assert_ne!(
            (key.show)(&loaded.settings),
            (key.show)(&built_in),
            "{} is read but not put in force",
            key.name
        );
    }
    // As it is typed, so that what is shown can be set.
    let lease = keys::find("lease").unwrap();
    assert_eq!((lease.show)(&loaded.settings), "\"first_call\"");
}

#[test]
fn what_is_said_for_a_program_holds_for_it_alone() {
    let system = "wait = 5\n[program.\"eddy_cuda*\"]\nmin_memory = \"10G\"\nwait = \"1h\"\n[program.other]\nshare = 0.5";
    let loaded = load(system, "").unwrap().strict().unwrap();
    let (settings, wait) = (loaded.settings, |secs| {
        Wait(Some(Duration::from_secs(secs)))
    });
    assert_eq!(
        (settings.min_memory, settings.share),
        (Some(10 << 30), None)
    );
    assert_eq!(
        (settings.wait, loaded.scoped.len()),
        (wait(3600), 3),
        "all are shown"
    );
    let later = load(system, "wait = 7").unwrap();
    assert_eq!(
        later.settings.wait,
        wait(7),
        "the user's file is the later one"
    );
}

#[test]
fn limits_of_a_group_and_a_user_hold_for_them_alone() {
    let user = users::name(geteuid().as_raw());
    let Ok(Some(group)) = Group::from_gid(getegid()) else {
        return;
    };
    let group = group.name;
    let own_group = format!("[group.\"{group}\"]\nmax_per_user = 4\n");
    let own = format!("[user.\"{user}\"]\nmax_per_user = 8\n");
    let others = "[group.no-such-group]\nmax_per_user = 5\n[user.no-such-user]\nmax_per_user = 6\n";
    for (tables, most) in [
        (String::new(), 2),
        (others.to_owned(), 2),
        (format!("{own_group}{others}"), 4),
        (format!("{own}{others}{own_group}"), 8),
    ] {
        let loaded = load(&format!("max_per_user = 2\n{tables}"), "").unwrap();
        assert_eq!(loaded.settings.max_per_user, Some(most), "{tables}");
        let failure = load("", &tables).map(|_| ());
        assert_eq!(failure.is_err(), !tables.is_empty(), "a user sets no limit");
    }
}

/// As in one file, whichever of the two is read last.
#[test]
fn limits_of_a_user_come_after_those_of_groups_in_another_file() {
    let user = format!("[user.{}]\nmax_per_user = 8\n", geteuid());
    let Ok(Some(group)) = Group::from_gid(getegid()) else {
        return;
    };
    let group = format!("[group.\"{}\"]\nmax_per_user = 4\n", group.name);
    let all = "max_per_user = 2\n";
    for (system, prefix, most) in [
        (&user, &group, 8),
        (&group, &user, 8),
        (&group, &String::new(), 4),
        (&user, &all.to_owned(), 8),
        (&group, &all.to_owned(), 4),
    ] {
        let system = format!("{all}{system}");
        let read = |files: &Environment| Loaded::read(files, None).unwrap();
        let settings = with_files(&system, prefix, "", read).settings;
        assert_eq!(settings.max_per_user, Some(most), "{system}{prefix}");
    }
}

#[test]
fn max_idle_is_told_of_any_user() {
    let Ok(Some(daemon)) = User::from_name("daemon") else {
        return;
    };
    let (uid, hour) = (daemon.uid.as_raw(), Duration::from_secs(3600));
    let Ok(Some(group)) = Group::from_gid(daemon.gid) else {
        return;
    };
    let user = format!("[user.{uid}]\nmax_idle = \"1h\"\n");
    let group = format!("[group.\"{}\"]\nmax_idle = \"2h\"\n", group.name);
    let own = format!("[user.{}]\nmax_idle = \"9h\"\n", geteuid());
    let all = "max_idle = \"3h\"\n";
    for (text, theirs, unknown) in [
        (String::new(), None, None),
        (all.to_owned(), Some(3 * hour), Some(3 * hour)),
        (format!("{all}{group}"), Some(2 * hour), Some(3 * hour)),
        (format!("{user}{group}{own}"), Some(hour), None),
        (group.clone(), Some(2 * hour), None),
    ] {
        let loaded = load(&text, "").unwrap();
        assert_eq!(loaded.max_idle_of(Some(uid)), theirs, "{text}");
        assert_eq!(loaded.max_idle_of(None), unknown, "{text}");
        assert_eq!(loaded.limits_idleness(), !text.is_empty(), "{text}");
    }
}

#[test]
fn of_two_tables_for_a_program_the_later_one_wins() {
    let exact = "[program.eddy_cuda10]\nshare = \"1/4\"\n";
    let pattern = "[program.\"eddy*\"]\nshare = \"1/2\"\n";
    for (first, second, share) in [(exact, pattern, "1/2"), (pattern, exact, "1/4")] {
        let loaded = load(&format!("{first}{second}"), "").unwrap();
        assert_eq!(loaded.settings.share, Some(share.parse().unwrap()));
        assert_eq!(
            loaded.scoped.last().unwrap().texts,
            [share],
            "as it is shown"
        );
    }
}

#[test]
fn the_environment_is_not_believed_under_secure_execution() {
    let get = |name: &str| Some(OsString::from(format!("/set/{name}")));
    let open = Environment::from(get, [], false);
    let file = "/set/XDG_CONFIG_HOME/getgpu/config.toml";
    assert_eq!(open.lock, Some("/set/GETGPU_LOCK".into()));
    assert_eq!(open.user_file, Some(file.into()));
    let secure = Environment::from(get, [], true);
    assert_eq!((secure.lock, secure.user_file), (None, None));
    assert_eq!(secure.system_file.to_str(), Some("/etc/getgpu/config.toml"));
    let relative = |name: &str| (name != "HOME").then(|| "rel".into());
    assert_eq!(Environment::from(relative, [], false).user_file, None);
}

#[test]
fn a_list_says_what_is_bad_and_what_is_not_there() {
    let [here, other] = [1, 9].map(|n| format!("MIG-7a1b2c3d-0001-5abc-8def-00000000000{n}"));
    let list = DeviceList::from(format!("nonsense\r\n{here} # first\n{other}").lines());
    let device = Device::by_uuid(Uuid::parse(&here).unwrap());
    assert_eq!(
        (list.bad.as_slice(), list.without(&[device])),
        (&["nonsense".to_owned()][..], vec![other.as_str()])
    );
}
