//! The GPUs that an inventory may name, with the figures NVIDIA's tools print for them
//! and for their MIG profiles. Profile names do not tell the memory: the numbers here are
//! as seen on real nodes.

/// What is known about a GPU model.
pub(crate) struct Model {
    pub(crate) id: &'static str,
    /// Name without the maker's, as drivers before 470 give it.
    pub(crate) name: &'static str,
    /// What drivers since 470 put before it.
    pub(crate) maker: &'static str,
    pub(crate) mib: u64,
    pub(crate) cuda: (i32, i32),
    /// PCI device id, and vendor in the low half.
    pub(crate) pci: u32,
    /// Most MIG devices it can have; 0: it cannot do MIG.
    pub(crate) slots: u32,
    pub(crate) profiles: &'static [Profile],
}

/// What is known about a MIG profile of a model.
pub(crate) struct Profile {
    pub(crate) name: &'static str,
    pub(crate) mib: u64,
    /// The GPU is divided into this many parts of that size, which also decides the GPU
    /// instance ids.
    pub(crate) part: u32,
    pub(crate) slices: u32,
    pub(crate) multiprocessors: u32,
    pub(crate) copy_engines: u32,
    pub(crate) decoders: u32,
    pub(crate) jpegs: u32,
    pub(crate) ofas: u32,
}

#[rustfmt::skip]
const fn p(name: &'static str, mib: u64, part: u32, slices: u32, multiprocessors: u32, ce_dec_jpg_ofa: [u32; 4]) -> Profile {
    let [copy_engines, decoders, jpegs, ofas] = ce_dec_jpg_ofa;
    Profile { name, mib, part, slices, multiprocessors, copy_engines, decoders, jpegs, ofas }
}

const A30: &[Profile] = &[
    p("1g.6gb", 5952, 4, 1, 14, [1, 0, 0, 0]),
    p("2g.12gb", 11968, 2, 2, 28, [2, 2, 0, 0]),
    p("4g.24gb", 24002, 1, 4, 56, [4, 4, 1, 1]),
];
const A100_40: &[Profile] = &[
    p("1g.5gb", 4864, 8, 1, 14, [1, 0, 0, 0]),
    p("1g.10gb", 9856, 4, 1, 14, [1, 1, 0, 0]),
    p("2g.10gb", 9856, 4, 2, 28, [2, 1, 0, 0]),
    p("3g.20gb", 20096, 2, 3, 42, [3, 2, 0, 0]),
    p("4g.20gb", 20096, 2, 4, 56, [4, 2, 0, 0]),
    p("7g.40gb", 40192, 1, 7, 98, [7, 5, 1, 1]),
];
const A100_80: &[Profile] = &[
    p("1g.10gb", 9728, 8, 1, 14, [1, 0, 0, 0]),
    p("1g.20gb", 19968, 4, 1, 14, [1, 1, 0, 0]),
    p("2g.20gb", 19968, 4, 2, 28, [2, 1, 0, 0]),
    p("3g.40gb", 40192, 2, 3, 42, [3, 2, 0, 0]),
    p("4g.40gb", 40192, 2, 4, 56, [4, 2, 0, 0]),
    p("7g.80gb", 80384, 1, 7, 98, [7, 5, 1, 1]),
];
const H100_80: &[Profile] = &[
    p("1g.10gb", 9984, 8, 1, 16, [1, 1, 1, 0]),
    p("1g.20gb", 20096, 4, 1, 26, [1, 1, 1, 0]),
    p("2g.20gb", 20096, 4, 2, 32, [2, 2, 2, 0]),
    p("3g.40gb", 40448, 2, 3, 60, [3, 3, 3, 0]),
    p("4g.40gb", 40448, 2, 4, 64, [4, 4, 4, 0]),
    p("7g.80gb", 81152, 1, 7, 132, [8, 7, 7, 1]),
];
const H200: &[Profile] = &[
    p("1g.18gb", 16384, 8, 1, 16, [1, 1, 1, 0]),
    p("1g.35gb", 33024, 4, 1, 26, [1, 1, 1, 0]),
    p("2g.35gb", 33024, 4, 2, 32, [2, 2, 2, 0]),
    p("3g.71gb", 71168, 2, 3, 60, [3, 3, 3, 0]),
    p("4g.71gb", 71168, 2, 4, 64, [4, 4, 4, 0]),
    p("7g.141gb", 143360, 1, 7, 132, [8, 7, 7, 1]),
];
const B200: &[Profile] = &[
    p("1g.23gb", 22528, 8, 1, 18, [1, 1, 1, 0]),
    p("1g.45gb", 45312, 4, 1, 30, [1, 1, 1, 0]),
    p("2g.45gb", 45312, 4, 2, 36, [2, 2, 2, 0]),
    p("3g.90gb", 91136, 2, 3, 70, [3, 3, 3, 0]),
    p("4g.90gb", 91136, 2, 4, 72, [4, 4, 4, 0]),
    p("7g.180gb", 182272, 1, 7, 148, [8, 7, 7, 1]),
];
/// NVIDIA's MIG User Guide and `nvidia-smi mig -lgip` have the same figures; without
/// encoders, which NVML does not count among a MIG device's attributes that are simulated.
const RTX_PRO_6000: &[Profile] = &[
    p("1g.24gb", 24192, 4, 1, 46, [1, 1, 1, 0]),
    p("1g.24gb+me", 24192, 4, 1, 46, [1, 1, 1, 1]),
    p("1g.24gb+gfx", 24192, 4, 1, 46, [1, 1, 1, 0]),
    p("1g.24gb+me.all", 24192, 4, 1, 46, [1, 4, 4, 1]),
    p("1g.24gb-me", 24192, 4, 1, 46, [1, 0, 0, 0]),
    p("2g.48gb", 48512, 2, 2, 94, [2, 2, 2, 0]),
    p("2g.48gb+gfx", 48512, 2, 2, 94, [2, 2, 2, 0]),
    p("2g.48gb+me.all", 48512, 2, 2, 94, [2, 4, 4, 1]),
    p("2g.48gb-me", 48512, 2, 2, 94, [2, 0, 0, 0]),
    p("4g.96gb", 97280, 1, 4, 188, [4, 4, 4, 1]),
    p("4g.96gb+gfx", 97280, 1, 4, 188, [4, 4, 4, 1]),
];

#[rustfmt::skip]
const MODELS: &[Model] = &[
    Model { id: "A30", name: "A30", maker: "NVIDIA ", mib: 24576, cuda: (8, 0), pci: 0x20b7_10de, slots: 4, profiles: A30 },
    Model { id: "A100-SXM4-40GB", name: "A100-SXM4-40GB", maker: "NVIDIA ", mib: 40960, cuda: (8, 0), pci: 0x20b0_10de, slots: 7, profiles: A100_40 },
    Model { id: "A100-SXM4-80GB", name: "A100-SXM4-80GB", maker: "NVIDIA ", mib: 81920, cuda: (8, 0), pci: 0x20b2_10de, slots: 7, profiles: A100_80 },
    Model { id: "H100-80GB", name: "H100 80GB HBM3", maker: "NVIDIA ", mib: 81559, cuda: (9, 0), pci: 0x2330_10de, slots: 7, profiles: H100_80 },
    Model { id: "H200", name: "H200", maker: "NVIDIA ", mib: 143771, cuda: (9, 0), pci: 0x2335_10de, slots: 7, profiles: H200 },
    Model { id: "B200", name: "B200", maker: "NVIDIA ", mib: 183359, cuda: (10, 0), pci: 0x2901_10de, slots: 7, profiles: B200 },
    Model { id: "RTX-PRO-6000", name: "RTX PRO 6000 Blackwell Server Edition", maker: "NVIDIA ", mib: 97887, cuda: (12, 0), pci: 0x2bb5_10de, slots: 4, profiles: RTX_PRO_6000 },
    Model { id: "GB10", name: "GB10", maker: "NVIDIA ", mib: 122_570, cuda: (12, 1), pci: 0x2e12_10de, slots: 0, profiles: &[] },
    Model { id: "GH200-96GB", name: "GH200 480GB", maker: "NVIDIA ", mib: 97_871, cuda: (9, 0), pci: 0x2342_10de, slots: 7, profiles: H100_80 },
    Model { id: "L40S", name: "L40S", maker: "NVIDIA ", mib: 46068, cuda: (8, 9), pci: 0x26b9_10de, slots: 0, profiles: &[] },
    Model { id: "T4", name: "Tesla T4", maker: "", mib: 15360, cuda: (7, 5), pci: 0x1eb8_10de, slots: 0, profiles: &[] },
    Model { id: "V100-SXM2-16GB", name: "Tesla V100-SXM2-16GB", maker: "", mib: 16384, cuda: (7, 0), pci: 0x1db1_10de, slots: 0, profiles: &[] },
];

/// The model an inventory calls by this id.
pub(crate) fn model(id: &str) -> Result<&'static Model, String> {
    MODELS.iter().find(|model| model.id == id).ok_or_else(|| {
        let known: Vec<&str> = MODELS.iter().map(|model| model.id).collect();
        format!("no model {id:?}; known: {}", known.join(", "))
    })
}

impl Model {
    /// The profile of this name and the slices of its compute instance: `1c.3g.20gb` is
    /// one slice of a `3g.20gb`. A suffix such as `+me` that the model does not list
    /// changes nothing here.
    pub(crate) fn profile(&self, name: &str) -> Result<(&'static Profile, u32), String> {
        let (slices, whole) = match name.split_once("c.") {
            Some((slices, rest)) => (slices.parse::<u32>().ok(), rest),
            None => (None, name),
        };
        let plain = whole.split(['+', '-']).next().unwrap_or(whole);
        let named = |name: &str| self.profiles.iter().find(|profile| profile.name == name);
        let profile = named(whole)
            .or_else(|| named(plain))
            .ok_or_else(|| format!("{} has no MIG profile {name:?}", self.id))?;
        Ok((profile, slices.unwrap_or(profile.slices)))
    }
}
