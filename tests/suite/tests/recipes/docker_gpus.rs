//! How docker reads `--gpus` of docs/LAUNCHERS.md: docker's own client, which sends what it has
//! read to an engine that is a socket of the test.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use getgpu_tests::assert_devices;
use harness::skip::{self, Need};
use harness::{Outcome, Sandbox};
use serde_json::Value;

use crate::launchers::documented;

/// One device, and two.
const ONE: &str = "docker run --gpus device=$(getgpu) image";
const TWO: &str = r#"docker run --gpus "\"device=$(getgpu -n 2)\"" image"#;
const UNQUOTED: &str = "docker run --gpus device=$(getgpu -n 2) image";

/// Whether docker is not here, or another program has its name; then it has been said.
fn lacks_docker() -> bool {
    if skip::lacks(&[Need::Tool("docker")]) {
        return true;
    }
    let version = std::process::Command::new("docker")
        .arg("--version")
        .output();
    let text = version.map(|output| output.stdout).unwrap_or_default();
    let is_other = !text.starts_with(b"Docker version");
    if is_other {
        skip::say("the docker here is another program");
    }
    is_other
}

/// Reads the first line of a request and its body.
fn request(stream: &UnixStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut reader = BufReader::new(stream);
    let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
    reader.read_line(&mut head)?;
    while reader.read_line(&mut line)? > 2 {
        if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
            length = text.trim().parse().unwrap_or(0);
        }
        line.clear();
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok((head, body))
}

fn reply(mut stream: &UnixStream, status: &str, text: &str) -> std::io::Result<()> {
    let length = text.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nApi-Version: 1.45\r\nOstype: linux\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{text}"
    )
}

/// Serves until `GET /end`; the container that docker asked for, if it did. None is made.
fn serve(engine: &UnixListener) -> Option<Value> {
    let mut container = None;
    for stream in engine.incoming().map_while(Result::ok) {
        let Ok((head, body)) = request(&stream) else {
            continue;
        };
        if head.starts_with("GET /end ") {
            break;
        }
        // A client that has gone needs no answer.
        let _ = if head.contains("/containers/create") {
            container = serde_json::from_slice(&body).ok();
            reply(
                &stream,
                "500 Internal Server Error",
                r#"{"message":"seen"}"#,
            )
        } else {
            reply(&stream, "200 OK", "")
        };
    }
    container
}

/// Runs a line; the device requests of the container that docker asked for, if it did.
fn requests(sandbox: &Sandbox, line: &str) -> (Outcome, Option<Value>) {
    let socket = sandbox.path("work/engine");
    let _ = std::fs::remove_file(&socket);
    let engine = UnixListener::bind(&socket).unwrap();
    let served = std::thread::spawn(move || serve(&engine));
    let host = format!("unix://{}", socket.display());
    let outcome = sandbox.shell("bash", line).env("DOCKER_HOST", host).run();
    let mut last = UnixStream::connect(&socket).unwrap();
    last.write_all(b"GET /end HTTP/1.1\r\n\r\n").unwrap();
    let seen = served.join().unwrap();
    let devices = seen.map(|mut seen| seen["HostConfig"]["DeviceRequests"].take());
    (outcome, devices)
}

#[test]
fn docker_reads_one_or_two_devices() {
    if lacks_docker() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    for (count, line) in [(1, ONE), (2, TWO)] {
        documented(line);
        let (outcome, seen) = requests(&sandbox, line);
        let seen = seen.unwrap_or_else(|| panic!("{line}: {outcome:#?}"));
        let ids = seen[0]["DeviceIDs"].as_array().unwrap();
        let ids = Vec::from_iter(ids.iter().map(|id| id.as_str().unwrap().to_owned()));
        let all = sandbox.uuids();
        let chosen = Vec::from_iter(all.into_iter().filter(|uuid| ids.contains(uuid)));
        assert_eq!(ids.len(), count, "{line}: {seen}");
        assert_devices(&ids, &chosen);
        sandbox.ask("--release-all").exits(0);
    }
}

/// A comma outside docker's quotes ends the device's name.
#[test]
fn docker_refuses_two_devices_without_its_quotes() {
    if lacks_docker() {
        return;
    }
    let sandbox = Sandbox::new("mig4");
    let (outcome, seen) = requests(&sandbox, UNQUOTED);
    assert_eq!(seen, None);
    outcome.exits(125).mentions("invalid argument");
    sandbox.ask("--release-all").exits(0);
}
