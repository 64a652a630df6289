//! The judge over what the simulated programs did: were two of them ever on one device?
//! It reads only their own logs, so nothing that the commands claim can persuade it.

use std::collections::BTreeMap;

use sim_node::{Call, Collision, Run};

use crate::Sandbox;

impl Sandbox {
    /// Asserts that no program met another on its device, and that no two runs overlap
    /// there.
    ///
    /// For tests without sharing. A run without an end was killed or still goes on: of
    /// such the simulator itself says whether the next one met it.
    #[track_caller]
    pub fn assert_exclusive(&self) {
        let collisions = self.folder().collisions().expect("the log of collisions");
        assert!(
            collisions.is_empty(),
            "{} collisions, the first: {:?}",
            collisions.len(),
            collisions[0]
        );
        for (uuid, runs) in self.runs_by_device() {
            for pair in runs.windows(2) {
                let over = pair[0].end.is_none_or(|end| end <= pair[1].start);
                assert!(
                    over,
                    "two at once on {uuid}: {:?} and {:?}",
                    pair[0], pair[1]
                );
            }
        }
    }

    /// All runs so far.
    pub fn runs(&self) -> Vec<Run> {
        self.folder().runs().expect("the log of runs")
    }

    /// Programs that met another on a device.
    pub fn collisions(&self) -> Vec<Collision> {
        self.folder().collisions().expect("the log of collisions")
    }

    /// Logs calls of NVML from now on.
    pub fn log_calls(&self) {
        self.folder().log_calls().expect("the log of calls");
    }

    /// Those that were logged.
    pub fn calls(&self) -> Vec<Call> {
        self.folder().calls().expect("the log of calls")
    }

    /// All runs so far, by device, in the order in which they began.
    pub fn runs_by_device(&self) -> BTreeMap<String, Vec<Run>> {
        let mut devices: BTreeMap<String, Vec<Run>> = BTreeMap::new();
        for run in self.folder().runs().expect("the log of runs") {
            devices.entry(run.uuid.clone()).or_default().push(run);
        }
        for runs in devices.values_mut() {
            runs.sort_by_key(|run| run.start);
        }
        devices
    }
}
