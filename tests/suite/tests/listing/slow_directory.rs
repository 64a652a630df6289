//! A node whose users come from a directory service that takes seconds: who holds what is shown by
//! numbers then, and neither the driver nor a waiter is said to be slow.

use getgpu_tests::root;
use harness::{Sandbox, skip, skip::Need};

/// Users whom only the service knows.
const USERS: [u32; 3] = [64_001, 64_002, 64_003];

/// A service (nss(5)) that takes 3 s for each name.
const SOURCE: &str = "#include <errno.h>\n#include <nss.h>\n#include <pwd.h>\n#include <stdio.h>\n#include <string.h>\n#include <unistd.h>\n\
    enum nss_status _nss_slow_getpwuid_r(uid_t uid, struct passwd *user, char *buffer, size_t length, int *error) {\n\
    sleep(3); if (length < 64) { *error = ERANGE; return NSS_STATUS_TRYAGAIN; }\n\
    memset(user, 0, sizeof *user); snprintf(buffer, length, \"slow%u\", uid);\n\
    user->pw_name = buffer; user->pw_passwd = user->pw_gecos = user->pw_dir = user->pw_shell = \"\";\n\
    user->pw_uid = user->pw_gid = uid; return NSS_STATUS_SUCCESS; }\n";

/// A script before which the users of a sandbox come from the service.
fn slow(sandbox: &Sandbox) -> String {
    let source = sandbox.file("work/slow.c", SOURCE, 0o644);
    let library = sandbox.path("lib/libnss_slow.so.2");
    let build = sandbox.words("cc -shared -fPIC -o");
    build.args([&library, &source]).run().exits(0);
    let switch = sandbox.file("work/nsswitch.conf", "passwd: files slow\n", 0o644);
    format!("mount --bind {switch:?} /etc/nsswitch.conf &&")
}

#[test]
fn names_that_are_late_are_numbers_and_use_none_of_nvmls_time() {
    if skip::lacks(&[Need::Tool("cc"), Need::Mounts]) {
        return;
    }
    let Some(sandbox) = root("mig4") else { return };
    sandbox.set_settings("nvml_timeout = 6");
    let slow = slow(&sandbox);
    let start = |uid: &u32| sandbox.leased().uid(*uid).spawn();
    let _programs: Vec<_> = USERS.iter().map(start).collect();
    sandbox.until_running(USERS.len());
    let run = |words: &str| sandbox.apart(&format!("{slow} {words}")).run();
    let known = run("getent passwd 64001");
    known.exits(0).shows("slow64001");
    let listed = run("getgpu --list");
    assert!(!listed.exits(0).stdout.contains("NVML"), "{listed:#?}");
    for uid in USERS {
        listed.shows(&uid.to_string());
    }
    // In a refusal, and where a call waits.
    run("getgpu -n 4").exits(1).mentions("64001");
    run("getgpu -n 4 --wait=1").exits(1).mentions("64001");
}
