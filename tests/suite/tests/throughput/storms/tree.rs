//! A random tree of programs as plain data: who starts whom, by which of the ways to have a
//! device, and which of them are killed when. The same seed gives the same tree.

use getgpu_tests::random::Random;

/// How a branch comes to its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// With the variable that it has.
    Plain,
    /// `CUDA_VISIBLE_DEVICES=$(getgpu) exec program`.
    Reserve,
    /// The same below a shell that stays.
    ReserveBelow,
    /// `export CUDA_VISIBLE_DEVICES=$(getgpu --hold)`.
    Hold,
    /// `cudawrap -- program`.
    Lease,
    /// A wrapped program.
    Link,
    /// `cudawrap --auto -- program`; has nothing below it.
    Auto,
    /// `cudawrap.lease()`.
    Python,
    /// `getgpu --tag`, below the reservation that is printed again.
    Again,
}

impl Way {
    /// Whether a getgpu-hold keeps the device.
    pub(crate) const fn has_holder(self) -> bool {
        matches!(
            self,
            Self::Reserve | Self::ReserveBelow | Self::Hold | Self::Python
        )
    }

    /// Whether it has a name by which it is printed again and released.
    pub(crate) const fn may_be_tagged(self) -> bool {
        self.has_holder() && !matches!(self, Self::Python)
    }

    /// Whether it asks for a device.
    pub(crate) const fn asks(self) -> bool {
        !matches!(self, Self::Plain | Self::Again)
    }
}

/// Which devices are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    FirstGpu,
    TwoSlices,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) count: usize,
    /// A share of 1/part.
    pub(crate) part: i64,
    /// Seconds in the queue.
    pub(crate) wait: u64,
    pub(crate) filter: Option<Filter>,
    pub(crate) ignores_grant: bool,
}

impl Wish {
    pub(crate) const ONE: Self = Self {
        count: 1,
        part: 1,
        wait: 0,
        filter: None,
        ignores_grant: false,
    };

    fn draw(random: &mut Random) -> Self {
        let mut one_in = |n| random.below(n) == 0;
        let (pair, shares, waits) = (one_in(6), one_in(3), !one_in(3));
        let (filters, ignores_grant) = (one_in(8), one_in(12));
        let filter = [Filter::FirstGpu, Filter::TwoSlices][random.below(2) as usize];
        Self {
            count: 1 + usize::from(pair),
            part: if shares {
                2 + random.below(3) as i64
            } else {
                1
            },
            wait: if waits { 1 + random.below(4) } else { 0 },
            filter: filters.then_some(filter),
            ignores_grant,
        }
    }
}

/// A process and what it starts. One below which there is nothing is a CUDA program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Branch {
    pub(crate) parent: Option<usize>,
    pub(crate) way: Way,
    pub(crate) wish: Wish,
    pub(crate) tagged: bool,
    /// Milliseconds before it starts.
    pub(crate) pause: u64,
    /// Milliseconds before a CUDA program has its context, and for which it has it.
    pub(crate) init: u64,
    pub(crate) run: u64,
    /// Whether what started it goes on meanwhile.
    pub(crate) in_background: bool,
    /// Its user, 0 for that of the test; what it starts has the same.
    pub(crate) uid: u32,
}

/// What is done to a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blow {
    /// SIGKILL for its process.
    Process,
    /// SIGKILL for its getgpu.
    Call,
    /// SIGKILL for its getgpu-hold.
    Holder,
    /// `getgpu --release`.
    Release,
}

/// A tree; a branch comes after the one that starts it.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    pub(crate) seed: u64,
    pub(crate) node: &'static str,
    /// `max_per_user`.
    pub(crate) most: Option<i64>,
    pub(crate) branches: Vec<Branch>,
    /// What is done to which branch, after so many milliseconds.
    pub(crate) blows: Vec<(u64, Blow, usize)>,
}

const NODES: [&str; 3] = [
    "driver = '570.133.20'\n[[gpu]]\nmodel = 'H200'\n",
    "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-80GB'\ncount = 3\n",
    "driver = '550.54.15'\n[[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '1g.5gb, 2g.10gb'\n\
     [[gpu]]\nmodel = 'A100-SXM4-40GB'\nmig = true\nlayout = '1g.5gb, 2g.10gb'\n",
];

const WAYS: [Way; 12] = [
    Way::Plain,
    Way::Reserve,
    Way::ReserveBelow,
    Way::Hold,
    Way::Hold,
    Way::Lease,
    Way::Lease,
    Way::Lease,
    Way::Link,
    Way::Auto,
    Way::Python,
    Way::Again,
];

/// No branch is deeper.
const DEPTH: usize = 4;

impl Tree {
    /// The tree of this seed. Other users need root, and a part of it Python.
    pub(crate) fn grow(seed: u64, is_root: bool, has_python: bool) -> Self {
        let mut random = Random::new(seed);
        let mut tree = Self {
            seed,
            node: NODES[random.below(3) as usize],
            most: (random.below(3) == 0).then_some(2),
            branches: Vec::new(),
            blows: Vec::new(),
        };
        let roots = 3 + random.below(3) as usize;
        let size = roots + 6 + random.below(12) as usize;
        for number in 0..size {
            let parent = (number >= roots).then(|| random.below(number as u64) as usize);
            let parent = parent.filter(|parent| tree.path(*parent).len() < DEPTH);
            let drawn = WAYS[random.below(WAYS.len() as u64) as usize];
            let uid = [0, 0, 1001, 1002][random.below(4) as usize];
            let mut wish = Wish::draw(&mut random);
            if tree.node == NODES[0] {
                wish.count = 1;
            }
            let branch = Branch {
                parent,
                way: tree.possible(drawn, parent, has_python),
                wish,
                tagged: random.below(3) == 0,
                pause: random.below(2) * random.below(if parent.is_some() { 250 } else { 1500 }),
                init: random.below(500),
                run: 200 + random.below(500),
                in_background: random.below(3) > 0,
                uid: match parent {
                    Some(parent) => tree.branches[parent].uid,
                    None if is_root => uid,
                    None => 0,
                },
            };
            tree.branches.push(branch);
        }
        tree.settle();
        for _ in 0..3 + random.below(8) {
            let at = 100 + random.below(2400);
            let blow = [Blow::Process, Blow::Call, Blow::Holder, Blow::Release];
            let blow = blow[random.below(4) as usize];
            let suits = |branch: &Branch| match blow {
                Blow::Process => true,
                Blow::Call => branch.way.may_be_tagged(),
                Blow::Holder => branch.way.has_holder(),
                Blow::Release => branch.tagged,
            };
            let suitable = (0..size).filter(|number| suits(&tree.branches[*number]));
            let suitable: Vec<usize> = suitable.collect();
            if !suitable.is_empty() {
                let drawn = random.below(suitable.len() as u64) as usize;
                tree.blows.push((at, blow, suitable[drawn]));
            }
        }
        tree
    }

    fn possible(&self, way: Way, parent: Option<usize>, has_python: bool) -> Way {
        let again = || self.reservation_around(parent).is_some();
        match (way, parent) {
            (Way::Plain, None) | (Way::Again, None) => Way::Lease,
            (Way::Again, _) if !again() => Way::Plain,
            (Way::Python, _) if !has_python => Way::Lease,
            _ => way,
        }
    }

    /// What the branches have to be for what is below them.
    fn settle(&mut self) {
        for number in (0..self.branches.len()).rev() {
            let is_leaf = self.below(number).next().is_none();
            let branch = &mut self.branches[number];
            match branch.way {
                Way::Auto if !is_leaf => branch.way = Way::Lease,
                // It has its options from variables, which all below it would have too.
                Way::Link => branch.wish = Wish::ONE,
                _ => {}
            }
            if let (Way::Again, Some(around)) = (branch.way, self.printed_again(number)) {
                self.branches[around].tagged = true;
            }
            let branch = &mut self.branches[number];
            branch.tagged &= branch.way.may_be_tagged();
        }
    }

    /// The reservation that [`Way::Again`] prints.
    pub(crate) fn printed_again(&self, number: usize) -> Option<usize> {
        self.reservation_around(self.branches[number].parent)
    }

    fn reservation_around(&self, number: Option<usize>) -> Option<usize> {
        let mut path = self.path(number?).into_iter().rev();
        path.find(|outer| self.branches[*outer].way.may_be_tagged())
    }

    /// A branch and all that it comes from, the root first.
    pub(crate) fn path(&self, number: usize) -> Vec<usize> {
        let parent = |number: &usize| self.branches[*number].parent;
        let mut path: Vec<usize> = std::iter::successors(Some(number), parent).collect();
        path.reverse();
        path
    }

    /// What a branch starts.
    pub(crate) fn below(&self, number: usize) -> impl Iterator<Item = usize> + '_ {
        let all = 0..self.branches.len();
        all.filter(move |other| self.branches[*other].parent == Some(number))
    }
}
