//! The listing as comma-separated values (RFC 4180): a line of names, then a line for each
//! device. Several holders of a device stand in one field with semicolons between. Bytes
//! and Unix seconds; an empty field where something is not known.

use getgpu_common::lock::holders::Holder;

use super::rows::Row;

const NAMES: [&str; 20] = [
    "index",
    "uuid",
    "gpu",
    "gpu_name",
    "profile",
    "memory_total",
    "memory_used",
    "state",
    "share_used",
    "empty",
    "empty_since",
    "kinds",
    "users",
    "pids",
    "programs",
    "shares",
    "since",
    "until",
    "tags",
    "jobs",
];

/// The lines, each with the line break that the RFC has.
pub fn text(rows: &[Row]) -> String {
    let mut text = format!("{}\r\n", NAMES.join(","));
    for row in rows {
        let fields = fields(row).map(|field| quoted(&field));
        text.push_str(&format!("{}\r\n", fields.join(",")));
    }
    text
}

fn fields(row: &Row) -> [String; 20] {
    let number = |number: Option<u64>| number.map_or_else(String::new, |n| n.to_string());
    let each = |value: &dyn Fn(&Holder) -> Option<String>| {
        let all: Vec<String> = row
            .holders
            .iter()
            .map(|holder| value(holder).unwrap_or_default())
            .collect();
        let none = all.iter().all(String::is_empty);
        if none { String::new() } else { all.join(";") }
    };
    [
        row.index
            .map_or_else(String::new, |index| index.to_string()),
        row.uuid.clone(),
        row.gpu.to_string(),
        row.gpu_name.clone().unwrap_or_default(),
        row.profile.clone().unwrap_or_default(),
        number(row.memory_total),
        number(row.memory_used),
        row.state.word().to_owned(),
        row.share_used.to_string(),
        row.empty
            .map_or_else(String::new, |empty| empty.to_string()),
        number(row.empty_since),
        each(&|holder| Some(holder.kind.to_owned())),
        each(&|holder| holder.user.clone()),
        each(&|holder| holder.pid.map(|pid| pid.to_string())),
        each(&|holder| holder.program.clone()),
        each(&|holder| holder.share.map(|share| share.to_string())),
        each(&|holder| holder.since.map(|since| since.to_string())),
        each(&|holder| holder.until.map(|until| until.to_string())),
        each(&|holder| holder.tag.clone()),
        each(&|holder| holder.job.clone()),
    ]
}

fn quoted(field: &str) -> String {
    if field.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_field_with_a_separator_is_quoted() {
        assert_eq!(quoted("a"), "a");
        assert_eq!(quoted("a,b"), "\"a,b\"");
        assert_eq!(quoted("a\"b\n"), "\"a\"\"b\n\"");
    }
}
