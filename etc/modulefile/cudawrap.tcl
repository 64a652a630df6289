#%Module1.0
# For environment-modules and Lmod: after loading this module, CUDA programs take a free device at their first CUDA call (docs/AUTO.md).
# Copy it to MODULEPATH/cudawrap/0.1.0 and set root.

set root /opt/getgpu/0.1.0

proc ModulesHelp { } {
    puts stderr "CUDA programs take a free MIG device or GPU at their first CUDA call, and hold it until they exit."
    puts stderr "CUDAWRAP_DISABLE=1 runs a program unchanged. Profilers set the same variable: cudawrap -- nsys ..."
}

module-whatis "a free MIG device or GPU for every CUDA program, at its first CUDA call"
setenv CUDA_INJECTION64_PATH $root/lib/getgpu/libcudawrap.so
