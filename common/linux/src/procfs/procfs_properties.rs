//! What must hold for any bytes that a file of /proc could have: nothing panics, and what
//! the kernel writes is read as it is. Names of processes are any bytes at all, since
//! every program chooses its own.

use proptest::prelude::*;

use super::fdinfo::{OwnLock, parse, within};
use super::namespaces::translate;
use super::stat::Stat;
use super::{effective, process_memory};
use crate::byte_range::Range;

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_stat_is_read_whatever_the_name(
        pid in 1i32.., name in prop::collection::vec(any::<u8>(), 0..16), state in "[RSDZTtXxKWPI]",
        ppid in 0i32.., terminal in any::<u32>(), flags in any::<u32>(), start in any::<u64>(), arg_start in any::<u64>(),
    ) {
        let mut fields = vec!["1".to_owned(); 50];
        (fields[0], fields[1], fields[6]) = (state.clone(), ppid.to_string(), flags.to_string());
        (fields[4], fields[19], fields[45]) = (terminal.to_string(), start.to_string(), arg_start.to_string());
        let text = [format!("{pid} (").as_bytes(), &name, format!(") {}\n", fields.join(" ")).as_bytes()].concat();
        let stat = Stat::parse(&text).unwrap();
        prop_assert_eq!((stat.pid, stat.ppid, stat.start, stat.arg_start), (pid, ppid, start, arg_start));
        prop_assert_eq!(stat.state.to_string(), state);
        prop_assert_eq!(stat.comm, String::from_utf8_lossy(&name).into_owned());
        prop_assert_eq!((stat.kernel, stat.forked), (flags & 0x0020_0000 != 0, flags & 0x40 != 0));
        prop_assert_eq!((stat.exiting, stat.terminal), (flags & 4 != 0, terminal));
        for end in 0..text.len() {
            let _ = Stat::parse(&text[..end]);
        }
    }

    #[test]
    fn any_bytes_are_a_stat_or_none(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b' '), Just(b')'), Just(b'(')], 0..300)) {
        if let Some(stat) = Stat::parse(&bytes) {
            let open = bytes.iter().position(|b| *b == b'(').unwrap();
            let pid = std::str::from_utf8(&bytes[..open]).unwrap().trim().parse::<i32>();
            prop_assert_eq!(pid, Ok(stat.pid));
        }
    }

    #[test]
    fn a_lock_of_ours_is_read_and_no_other(
        number in any::<u16>(), device in "[0-9a-f]{2}:[0-9a-f]{2,5}", inode in any::<u64>(),
        start in 0..i64::MAX, len in 1..i64::MAX, kind in "OFDLCK|FLOCK|POSIX|LEASE", mode in "READ|WRITE|RW",
    ) {
        let last = start.saturating_add(len - 1);
        let line = format!("lock:\t{number}: {kind} ADVISORY  {mode} -1 {device}:{inode} {start} {last}");
        let ours = kind == "OFDLCK" && mode == "READ";
        match parse(&line, "READ") {
            Some(lock) => {
                prop_assert!(ours);
                prop_assert_eq!(lock.inode, inode);
                prop_assert_eq!((lock.range.start(), i128::from(lock.range.start()) + i128::from(lock.range.len()) - 1), (start, i128::from(last)));
            }
            // A range that no number holds is none.
            None => prop_assert!(!ours || last == i64::MAX),
        }
        let written = parse(&line, "WRITE").is_some();
        prop_assert_eq!(written, kind == "OFDLCK" && mode == "WRITE" && last < i64::MAX);
        prop_assert_eq!(parse(&line.replace(&last.to_string(), "EOF"), "READ"), None);
    }

    #[test]
    fn any_line_gives_ranges_inside_the_wanted_one(
        lines in prop::collection::vec(prop_oneof!["lock:[ \t][0-9]: OFDLCK ADVISORY  READ -1 0:1:[0-3] -?[0-9]{1,19} -?[0-9]{1,19}", any::<String>()], 0..8),
        start in 0i64..1 << 40, len in 1i64..1 << 30,
    ) {
        let locks: Vec<OwnLock> = lines.iter().filter_map(|line| parse(line, "READ")).collect();
        let wanted = Range::new(start, len).unwrap();
        for part in within(&locks, 1, wanted) {
            prop_assert!(part.len() > 0 && part.start() >= start && part.end() <= wanted.end());
        }
    }

    #[test]
    fn a_uid_is_translated_by_the_row_that_has_it(
        rows in prop::collection::vec((any::<u32>(), any::<u32>(), any::<u32>()), 0..5), uid in any::<u32>(), garbage in any::<String>(),
    ) {
        let map: String = rows.iter().map(|(inside, outside, n)| format!("{inside:10} {outside:10} {n:10}\n")).collect();
        let in_row = |row: &&(u32, u32, u32)| u64::from(row.0) <= u64::from(uid) && u64::from(uid) < u64::from(row.0) + u64::from(row.2);
        let expected = rows.iter().find(in_row).and_then(|(inside, outside, _)| outside.checked_add(uid - inside));
        prop_assert_eq!(translate(&map, uid), expected);
        let _ = translate(&garbage, uid);
    }

    #[test]
    fn numbers_that_no_uid_has_are_no_uids(numbers in prop::collection::vec("0|18446744073709551615|18446744073709551616|[0-9]{0,10}", 0..9), uid in any::<u32>()) {
        let map: Vec<String> = numbers.chunks(3).map(|row| row.join(" ")).collect();
        let _ = translate(&map.join("\n"), uid);
    }

    #[test]
    fn the_effective_uid_is_the_second(uids in prop::array::uniform4(any::<u32>()), before in "[A-TV-Z][a-z]{1,8}:\t[a-z0-9 ]{0,20}\n", garbage in any::<String>()) {
        let [real, own, saved, filesystem] = uids;
        let status = format!("{before}Uid:\t{real}\t{own}\t{saved}\t{filesystem}\nGid:\t1\t2\t3\t4\n");
        prop_assert_eq!(effective(&status), Some(own));
        let _ = effective(&garbage);
    }

    #[test]
    fn a_variable_is_found_in_any_environment(
        before in prop::collection::vec("[A-Z_]{1,8}=[^\0]{0,20}", 0..4), name in "[a-z]{1,12}", value in "[^\0]{0,30}",
        after in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let (own, longer) = (format!("{name}={value}"), [format!("x{name}=1"), format!("{name}x=1")]);
        let before = before.iter().chain(&longer).map(String::as_bytes);
        let entries: Vec<&[u8]> = before.chain([own.as_bytes(), &after]).collect();
        let block = entries.join(&0);
        prop_assert_eq!(process_memory::value(&block, &name), Some(value.as_bytes()));
        let _ = process_memory::value(&after, &name);
    }
}
