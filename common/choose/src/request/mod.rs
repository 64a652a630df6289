//! What one call asks for, as values that are made one from the other and changed by none: `Asked`
//! from settings and environment, `Granted` with the devices of its grant, `Owned` with what the
//! caller has of these already. The same for getgpu and cudawrap, so that both mean the same devices.

mod asked;
mod batch_grant;
pub mod grant;
mod granted;
mod job_part;
mod owned;

pub use asked::Asked;
pub use granted::Granted;
pub use owned::Owned;
