//! The variables for libraries with threads of their own: as many threads as there are
//! cores, and that they stay where they are. Pure. (OpenMP 5.2, chapter 21; the manuals
//! of OpenBLAS, oneMKL and NumExpr.)

/// One thread for each core; a core's second hardware thread adds little to such work.
const COUNTS: [&str; 4] = [
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
];

/// The variables for a program on so many cores. Threads stay on their cores only if
/// those are the program's alone: two programs that pin their threads to the same cores
/// leave others idle.
pub fn variables(cores: usize, alone: bool) -> Vec<(String, String)> {
    let counts = COUNTS.map(|name| (name.to_owned(), cores.to_string()));
    let bind = alone.then(|| ("OMP_PROC_BIND".to_owned(), "true".to_owned()));
    counts.into_iter().chain(bind).collect()
}
