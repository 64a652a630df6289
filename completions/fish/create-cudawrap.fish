complete -c create-cudawrap -l link-dir -d 'Leave the program alone and put a link of its name into DIR, which comes before it in PATH' -r -f -a "(__fish_complete_directories)"
complete -c create-cudawrap -l wrapper -d 'Make links to this cudawrap' -r -F
complete -c create-cudawrap -l undo -d 'Put the program back under its name, the same file that it was; in a directory, every wrapped program'
complete -c create-cudawrap -l repair -d 'Wrap the new program after an upgrade replaced the link; renew links to a cudawrap that is gone'
complete -c create-cudawrap -l status -d 'Show a line for each PATH, or for each wrapped program in it if it is a directory; status 1 if one needs attention'
complete -c create-cudawrap -l json -d 'With --status: print JSON'
complete -c create-cudawrap -l all -d 'With --undo, --repair, --status: every path noted when it was wrapped'
complete -c create-cudawrap -l divert -d 'On Debian: let dpkg write CUDAWRAP_name from now on, so that upgrades keep the link'
complete -c create-cudawrap -s n -l dry-run -d 'Print what would be done'
complete -c create-cudawrap -l force -d 'Wrap also a package\'s file, one under an AppArmor profile, one on a network file system without cudawrap'
complete -c create-cudawrap -s v -l verbose -d 'Say what is decided'
complete -c create-cudawrap -s q -l quiet -d 'Errors only, no hints'
complete -c create-cudawrap -s V -l version -d 'Print the version'
complete -c create-cudawrap -s h -l help -d 'Print help: the common options (-h) or everything (--help)'
