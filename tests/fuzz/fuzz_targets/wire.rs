//! What comes from the process that asks NVML, and goes to it: an error, or one line that
//! means the same when it is sent again. Names of devices are names of devices.
#![no_main]

use getgpu_ask::NvmlRequest;
use getgpu_model::{Failure, GpuListing, Uuid};
use libfuzzer_sys::fuzz_target;

type Answer = Result<GpuListing, Failure>;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(answer) = serde_json::from_slice::<Answer>(bytes) {
        let line = serde_json::to_vec(&answer).expect("a line");
        assert!(!line.contains(&b'\n'));
        assert_eq!(
            serde_json::from_slice::<Answer>(&line).expect("the same"),
            answer
        );
        if let Ok(listing) = &answer {
            for device in &listing.devices {
                assert_eq!(
                    Uuid::parse(device.uuid.as_str()).as_ref(),
                    Some(&device.uuid)
                );
            }
        }
    }
    if let Ok(request) = serde_json::from_slice::<NvmlRequest>(bytes) {
        let line = serde_json::to_vec(&request).expect("a line");
        assert_eq!(
            serde_json::from_slice::<NvmlRequest>(&line).expect("the same"),
            request
        );
    }
});
