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
}

#[rustfmt::skip]
const fn p(name: &'static str, mib: u64, part: u32, slices: u32, multiprocessors: u32) -> Profile {
    Profile { name, mib, part, slices, multiprocessors }
}

const A30: &[Profile] = &[
    p("1g.6gb", 5952, 4, 1, 14),
    p("2g.12gb", 11968, 2, 2, 28),
    p("4g.24gb", 24002, 1, 4, 56),
];
const A100_40: &[Profile] = &[
    p("1g.5gb", 4864, 8, 1, 14),
    p("1g.10gb", 9856, 4, 1, 14),
    p("2g.10gb", 9856, 4, 2, 28),
    p("3g.20gb", 20096, 2, 3, 42),
    p("4g.20gb", 20096, 2, 4, 56),
    p("7g.40gb", 40192, 1, 7, 98),
];
const A100_80: &[Profile] = &[
    p("1g.10gb", 9728, 8, 1, 14),
    p("1g.20gb", 19968, 4, 1, 14),
    p("2g.20gb", 19968, 4, 2, 28),
    p("3g.40gb", 40192, 2, 3, 42),
    p("4g.40gb", 40192, 2, 4, 56),
    p("7g.80gb", 80384, 1, 7, 98),
];
const H100_80: &[Profile] = &[
    p("1g.10gb", 9984, 8, 1, 16),
    p("1g.20gb", 20096, 4, 1, 26),
    p("2g.20gb", 20096, 4, 2, 32),
    p("3g.40gb", 40448, 2, 3, 60),
    p("4g.40gb", 40448, 2, 4, 64),
    p("7g.80gb", 81152, 1, 7, 132),
];
const H200: &[Profile] = &[
    p("1g.18gb", 16384, 8, 1, 16),
    p("1g.35gb", 33024, 4, 1, 26),
    p("2g.35gb", 33024, 4, 2, 32),
    p("3g.71gb", 71168, 2, 3, 60),
    p("4g.71gb", 71168, 2, 4, 64),
    p("7g.141gb", 143360, 1, 7, 132),
];
/// As in NVIDIA's MIG User Guide and `nvidia-smi mig -lgip`.
const RTX_PRO_6000: &[Profile] = &[
    p("1g.24gb", 24192, 4, 1, 46),
    p("1g.24gb+me", 24192, 4, 1, 46),
    p("1g.24gb+gfx", 24192, 4, 1, 46),
    p("1g.24gb+me.all", 24192, 4, 1, 46),
    p("1g.24gb-me", 24192, 4, 1, 46),
    p("2g.48gb", 48512, 2, 2, 94),
    p("2g.48gb+gfx", 48512, 2, 2, 94),
    p("2g.48gb+me.all", 48512, 2, 2, 94),
    p("2g.48gb-me", 48512, 2, 2, 94),
    p("4g.96gb", 97280, 1, 4, 188),
    p("4g.96gb+gfx", 97280, 1, 4, 188),
];

#[rustfmt::skip]
const MODELS: &[Model] = &[
    Model { id: "A30", name: "A30", maker: "NVIDIA ", mib: 24576, cuda: (8, 0), pci: 0x20b7_10de, slots: 4, profiles: A30 },
    Model { id: "A100-SXM4-40GB", name: "A100-SXM4-40GB", maker: "NVIDIA ", mib: 40960, cuda: (8, 0), pci: 0x20b0_10de, slots: 7, profiles: A100_40 },
    Model { id: "A100-SXM4-80GB", name: "A100-SXM4-80GB", maker: "NVIDIA ", mib: 81920, cuda: (8, 0), pci: 0x20b2_10de, slots: 7, profiles: A100_80 },
    Model { id: "H100-80GB", name: "H100 80GB HBM3", maker: "NVIDIA ", mib: 81559, cuda: (9, 0), pci: 0x2330_10de, slots: 7, profiles: H100_80 },
    Model { id: "H200", name: "H200", maker: "NVIDIA ", mib: 143771, cuda: (9, 0), pci: 0x2335_10de, slots: 7, profiles: H200 },
    Model { id: "RTX-PRO-6000", name: "RTX PRO 6000 Blackwell Server Edition", maker: "NVIDIA ", mib: 97887, cuda: (12, 0), pci: 0x2bb5_10de, slots: 4, profiles: RTX_PRO_6000 },
    Model { id: "GB10", name: "GB10", maker: "NVIDIA ", mib: 122_570, cuda: (12, 1), pci: 0x2e12_10de, slots: 0, profiles: &[] },
    Model { id: "GH200-96GB", name: "GH200 480GB", maker: "NVIDIA ", mib: 97_871, cuda: (9, 0), pci: 0x2342_10de, slots: 7, profiles: H100_80 },
    Model { id: "T4", name: "Tesla T4", maker: "", mib: 15360, cuda: (7, 5), pci: 0x1eb8_10de, slots: 0, profiles: &[] },
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
