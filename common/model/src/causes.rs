//! `causes!`, the table of what can go wrong in a crate: one row for each failure, with its values,
//! its kind, the line that the user sees, and its hint. A row is data until it becomes a `Failure`.
//! Below are the rows of this crate.

/// Makes enums of rows, and of each row a [`Failure`](crate::Failure).
///
/// ```
/// getgpu_model::causes! {
///     /// What can go wrong with a lock.
///     enum Example<'a> {
///         /// mkfifo(3) has failed.
///         NotMade { path: &'a str, why: String } => LockPlace: "lock {path}: cannot be made: {why}";
///         Lost => LockPlace: "the lock was lost", "ask again";
///     }
/// }
/// let failure = getgpu_model::Failure::from(Example::NotMade { path: "/run/x", why: "no space".into() });
/// assert_eq!(failure.message, "lock /run/x: cannot be made: no space");
/// assert_eq!(getgpu_model::Failure::from(Example::Lost).hint.as_deref(), Some("ask again"));
/// ```
///
/// Rows without a kind are parts of messages, and have a `Display` instead:
///
/// ```
/// getgpu_model::causes! {
///     enum Part {
///         Replaced => "it was replaced while in use";
///         Foreign { uid: u32 } => "it belongs to uid {uid}";
///     }
/// }
/// assert_eq!(Part::Foreign { uid: 7 }.to_string(), "it belongs to uid 7");
/// assert_eq!(Part::Replaced.to_string(), "it was replaced while in use");
/// ```
#[macro_export]
macro_rules! causes {
    (@one $(#[$about:meta])* $vis:vis enum $name:ident $(<$life:lifetime>)? { $(
        $(#[$doc:meta])* $row:ident $({ $($field:ident: $type:ty),+ $(,)? })?
            => $kind:ident: $message:literal $(, $hint:literal)?;
    )+ }) => {
        $(#[$about])*
        $vis enum $name $(<$life>)? {
            $($(#[$doc])* $row $({ $($field: $type),+ })?,)+
        }

        impl $(<$life>)? From<$name $(<$life>)?> for $crate::Failure {
            fn from(cause: $name $(<$life>)?) -> Self {
                match cause {
                    $($name::$row $({ $($field),+ })? => Self::new($crate::Kind::$kind, format!($message))
                        $(.advised(format!($hint)))?,)+
                }
            }
        }
    };
    (@one $(#[$about:meta])* $vis:vis enum $name:ident $(<$life:lifetime>)? { $(
        $(#[$doc:meta])* $row:ident $({ $($field:ident: $type:ty),+ $(,)? })? => $message:literal;
    )+ }) => {
        $(#[$about])*
        $vis enum $name $(<$life>)? {
            $($(#[$doc])* $row $({ $($field: $type),+ })?,)+
        }

        impl $(<$life>)? ::std::fmt::Display for $name $(<$life>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $($name::$row $({ $($field),+ })? => write!(f, $message),)+
                }
            }
        }
    };
    ($($(#[$about:meta])* $vis:vis enum $name:ident $(<$life:lifetime>)? { $($rows:tt)+ })+) => {
        $($crate::causes! { @one $(#[$about])* $vis enum $name $(<$life>)? { $($rows)+ } })+
    };
}

causes! {
    /// What a node lacks. No other program has it, and no wait helps.
    #[derive(Clone, Copy, Debug)]
    pub enum NodeCause {
        /// The nvidia module is not loaded.
        NoDriverLoaded => NoDriver: "no NVIDIA driver on this node";
        /// The driver has none, or a container was given none.
        NoGpuHere => NoUsableGpu: "no NVIDIA GPU on this node";
        /// The permissions of /dev/nvidiaN.
        NoGpuOpens => NoUsableGpu: "no GPU that this process may open";
    }

    /// What can go wrong with what every program has.
    pub(crate) enum ModelCause {
        /// A full disk, or a closed standard output.
        NotWritten { why: String } => LockPlace: "standard output: {why}";
        NoTag { why: String } => Usage: "CUDAWRAP_TAG: {why}";
        FirstMigOnly { mig: usize } => NoDevice:
            "{mig} MIG devices: with this driver (before 570) a program sees only the first of them",
            "start one program on each; for a launcher that divides the list among its programs: CUDA_VISIBLE_DEVICES=$(getgpu -n {mig}) LAUNCHER";
        OnePerInstance { count: usize, together: usize } => NoDevice:
            "{count} devices: a program sees only one compute instance of each GPU instance, here {together} of them",
            "start one program on each";
    }
}
