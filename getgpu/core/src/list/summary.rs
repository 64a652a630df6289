//! The last line of a listing: how many devices of the pool are free, who has how many,
//! how many devices are out of the pool, and how many programs wait. Pure.

use std::collections::{BTreeMap, BTreeSet};

use super::rows::{DeviceState, Row};

/// `36 of 56 free; ana 12, ben 8; 5 waiting`
pub fn text(rows: &[Row], waiting: usize) -> String {
    let pool: Vec<&Row> = rows.iter().filter(|row| row.is_in_pool()).collect();
    let free = pool
        .iter()
        .filter(|row| row.state == DeviceState::Free)
        .count();
    let mut parts = vec![format!("{free} of {} free", pool.len())];
    let mut users = users(rows);
    users.sort_by_key(|(_, devices)| std::cmp::Reverse(*devices));
    let users: Vec<String> = users
        .iter()
        .map(|(name, devices)| format!("{name} {devices}"))
        .collect();
    if !users.is_empty() {
        parts.push(users.join(", "));
    }
    let outside = rows.len() - pool.len();
    if outside > 0 {
        parts.push(format!("{outside} outside your choice"));
    }
    if waiting > 0 {
        parts.push(format!("{waiting} waiting"));
    }
    parts.join("; ")
}

/// On how many devices each user holds something, by name.
pub fn users(rows: &[Row]) -> Vec<(&str, usize)> {
    let mut users: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        let holders = row.holders.iter();
        let names = holders.filter_map(|holder| holder.user.as_deref());
        for name in names.collect::<BTreeSet<_>>() {
            *users.entry(name).or_default() += 1;
        }
    }
    users.into_iter().collect()
}
