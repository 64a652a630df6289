#%Module1.0
# getgpu for environment-modules and Lmod, for an installation by `make install prefix=/opt/getgpu/0.1.0 sysconfdir=/etc`.
# Copy it to MODULEPATH/getgpu/0.1.0 and set root. The lock needs tmpfiles.d/getgpu.conf on every node, module or not.

set root    /opt/getgpu/0.1.0
set version 0.1.0

proc ModulesHelp { } {
    puts stderr "getgpu, cudawrap and create-cudawrap: a free MIG device or GPU for every program on a shared node."
    puts stderr "    CUDA_VISIBLE_DEVICES=\$(getgpu) ./app    or    cudawrap -- ./app"
    puts stderr "In Python: import cudawrap; cudawrap.lease() (package cudawrap, which pip installs from packaging/python)"
    puts stderr "man getgpu, man cudawrap and man create-cudawrap say more."
}

module-whatis "getgpu $version: a free NVIDIA MIG device or GPU for every program on a shared node"
conflict getgpu

# Loading it takes no device: that is up to the commands.
prepend-path PATH    $root/bin
prepend-path MANPATH $root/share/man
# Unlike PATH, an empty MANPATH has a default, which a trailing colon keeps.
append-path  MANPATH {}
