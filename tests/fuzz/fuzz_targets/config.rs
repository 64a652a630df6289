//! Settings files and lists of devices, which a site and its users write: every mistake has
//! its place, and a setting that is taken can be shown and read again.
#![no_main]

use std::path::Path;

use getgpu_settings::{File, DeviceList, Settings, keys};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = DeviceList::from(text.lines());
    let file = match File::parse(Path::new("/f"), text) {
        Ok(file) => file,
        Err(failure) => {
            assert!(failure.message.starts_with("/f:"), "{failure}");
            return;
        }
    };
    for entry in file.all_entries() {
        let (Some(key), Some(texts)) = (keys::find(&entry.name), &entry.texts) else {
            continue;
        };
        let mut settings = Settings::default();
        if (key.put)(&mut settings, texts).is_err() {
            assert_eq!(
                settings,
                Settings::default(),
                "what is refused changes nothing"
            );
            continue;
        }
        let shown = format!("{} = {}\n", key.name, (key.show)(&settings));
        let again = File::parse(Path::new("/f"), &shown).expect("what is shown is a setting");
        let mut read = Settings::default();
        let texts = again.entries[0].texts.as_ref().expect("it has a value");
        assert_eq!((key.put)(&mut read, texts), Ok(()), "{shown}");
        assert_eq!(read, settings, "{shown}");
    }
});
