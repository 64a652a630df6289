//! The devices of a grant: CUDA_VISIBLE_DEVICES, or what a batch system says of its job,
//! resolved against the node. A grant that names nothing here is a failure with a remedy.

use super::{Request, WITHOUT_GRANT};
use crate::batch::BatchGpus;
use crate::error::{Failure, Kind};
use crate::ident::{Selector, Uuid};
use crate::inventory::{Device, Inventory};
use crate::nvml_client::{Client, Worker};
use crate::visible::{self, Visible};

impl Request {
    /// The devices that the grant names must exist; without a grant nothing is asked.
    pub fn resolve_grant<W: Worker>(
        &mut self,
        client: &mut Client<W>,
    ) -> Result<Option<Inventory>, Failure> {
        if let (Visible::Unset, Some(gpus)) = (&self.visible, self.batch_gpus.take()) {
            return self.resolve_batch_gpus(client, &gpus).map(Some);
        }
        let entries = match &self.visible {
            Visible::Unset => return Ok(None),
            Visible::Nothing => return Err(self.empty_grant()),
            Visible::Entries(entries) => entries,
        };
        let inventory = client.scan(self.detail())?;
        let named = visible::resolve(entries, &inventory);
        if named.is_empty() {
            let index = index_of_mig(entries, &inventory).filter(|_| !self.batch_job);
            return Err(index.unwrap_or_else(|| self.vanished()));
        }
        self.filter.grant = Some(named.into_iter().map(|device| device.uuid).collect());
        Ok(Some(inventory))
    }

    /// The devices of a job that has GPUs and no CUDA_VISIBLE_DEVICES: what its cgroup
    /// leaves, else those that the batch system names.
    fn resolve_batch_gpus<W: Worker>(
        &mut self,
        client: &mut Client<W>,
        gpus: &BatchGpus,
    ) -> Result<Inventory, Failure> {
        let inventory = client.scan(self.detail())?;
        let granted = left_or_named(gpus, &inventory);
        if granted.is_empty() {
            let text = "this job has GPUs, but CUDA_VISIBLE_DEVICES is not set and the batch system does not name them";
            return Err(Failure::new(Kind::NoDevice, text).hint(
                "start the program with srun but without --gpu-bind=none, or set CUDA_VISIBLE_DEVICES to the job's GPUs",
            ));
        }
        self.put_grant(granted);
        Ok(inventory)
    }

    /// As if CUDA_VISIBLE_DEVICES named these devices.
    fn put_grant(&mut self, granted: Vec<Uuid>) {
        self.unnamed_grant = true;
        self.value = granted
            .iter()
            .map(Uuid::as_str)
            .collect::<Vec<_>>()
            .join(",");
        self.visible = Visible::Entries(granted.iter().cloned().map(Selector::Full).collect());
        self.filter.grant = Some(granted);
    }

    /// The same for a listing, where a grant that names nothing is an empty pool and not
    /// a failure.
    pub fn show_grant(&mut self, inventory: &Inventory) {
        if let (Visible::Unset, Some(gpus)) = (&self.visible, self.batch_gpus.take()) {
            return self.put_grant(left_or_named(&gpus, inventory));
        }
        self.filter.grant = match &self.visible {
            Visible::Unset => None,
            Visible::Nothing => Some(Vec::new()),
            Visible::Entries(entries) => {
                let named = visible::resolve(entries, inventory).into_iter();
                Some(named.map(|device| device.uuid).collect())
            }
        };
    }

    /// The failure of a variable that names no device: on purpose, or since CUDA does not
    /// know its first entry.
    pub fn empty_grant(&self) -> Failure {
        let first = self.value.split(',').next().unwrap_or_default().trim();
        if !(first.is_empty() || first.starts_with('-') || first.eq_ignore_ascii_case("NoDevFiles"))
        {
            return self.vanished();
        }
        let shown = if self.value.is_empty() {
            "empty"
        } else {
            self.value.as_str()
        };
        Failure::new(
            Kind::NoDevice,
            format!("CUDA_VISIBLE_DEVICES is {shown}: it names no device"),
        )
        .hint(self.remedy(WITHOUT_GRANT))
    }

    /// A grant that no longer names anything here.
    fn vanished(&self) -> Failure {
        let shown: String = self.value.chars().take(60).collect();
        let dots = if shown.len() < self.value.len() {
            ".."
        } else {
            ""
        };
        Failure::new(
            Kind::NoDevice,
            format!("CUDA_VISIBLE_DEVICES={shown}{dots}: no such device on this node"),
        )
        .hint(match self.value.as_str() {
            "getgpu" => "did you forget $( )? CUDA_VISIBLE_DEVICES=$(getgpu) ./app",
            _ => self.remedy("re-partitioned? unset CUDA_VISIBLE_DEVICES and ask again"),
        })
    }

    /// What a person can do about the grant: inside a job it is the batch system's, and
    /// to unset it takes what others were granted.
    pub fn remedy(&self, elsewhere: &'static str) -> &'static str {
        if self.batch_job {
            "the batch system set CUDA_VISIBLE_DEVICES for this job: ask it for other GPUs"
        } else {
            elsewhere
        }
    }
}

/// The devices that a job's cgroup leaves, else those that the batch system names.
fn left_or_named(gpus: &BatchGpus, inventory: &Inventory) -> Vec<Uuid> {
    let usable = inventory.gpus.iter().filter(|gpu| gpu.usable).count();
    let all = usable < inventory.gpus.len() || gpus.count == Some(usable);
    let named = |device: &&Device| device.usable && (all || gpus.numbers.contains(&device.gpu));
    let devices = inventory.devices.iter().filter(named);
    devices.map(|device| device.uuid.clone()).collect()
}

/// The failure for an index where MIG devices are: CUDA knows no index of them.
fn index_of_mig(entries: &[Selector], inventory: &Inventory) -> Option<Failure> {
    let any_mig = inventory.gpus.iter().any(|gpu| gpu.mig);
    let Some(Selector::Index(index)) = entries.first().filter(|_| any_mig) else {
        return None;
    };
    let exists = usize::try_from(*index).is_ok_and(|at| at < inventory.devices.len());
    let meant = if exists {
        format!(" {index}")
    } else {
        String::new()
    };
    let text = format!(
        "CUDA_VISIBLE_DEVICES={index}: no such device on this node: {index} is a GPU index, and MIG devices go by UUID"
    );
    let hint = format!("CUDA_VISIBLE_DEVICES=$(getgpu --ignore-grant{meant}) ./app");
    Some(Failure::new(Kind::NoDevice, text).hint(hint))
}
