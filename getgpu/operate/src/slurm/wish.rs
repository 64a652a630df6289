//! Who wants a task to have a device: its site, by the settings, or its job, by
//! GETGPU_SLURM.

use getgpu_model::Failure;
use getgpu_settings::{SlurmSettings, SlurmTasks};

use super::variable;
use crate::causes::SlurmCause;

/// Who wants the task to have a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// The job wants none, however it would get one.
    Nothing,
    /// Neither the job nor the site says anything.
    Nobody,
    Site,
    /// The job, with these options.
    Job(Vec<String>),
}

impl Wish {
    /// What is wanted for a task that has a grant, or none.
    ///
    /// # Errors
    ///
    /// The job asks by options, and the site does not allow that.
    pub fn read(settings: &SlurmSettings, granted: bool) -> Result<Self, Failure> {
        let asked = variable("GETGPU_SLURM").unwrap_or_default();
        let by_site = match settings.tasks {
            SlurmTasks::Auto => granted,
            SlurmTasks::Ungranted => !granted,
            SlurmTasks::Both | SlurmTasks::All => true,
            SlurmTasks::Asked => false,
        };
        match asked.trim().to_ascii_lowercase().as_str() {
            "no" => Ok(Self::Nothing),
            "yes" => Ok(Self::Job(Vec::new())),
            "" => Ok(if by_site { Self::Site } else { Self::Nobody }),
            _ if !settings.job_options => {
                Err(SlurmCause::OptionsNotAllowed { asked: &asked }.into())
            }
            _ => {
                let options = asked.split_whitespace().map(str::to_owned);
                Ok(Self::Job(options.collect()))
            }
        }
    }

    /// The job's options.
    pub fn options(&self) -> &[String] {
        match self {
            Self::Job(options) => options,
            Self::Nothing | Self::Nobody | Self::Site => &[],
        }
    }
}
