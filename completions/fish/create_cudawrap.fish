complete -c create_cudawrap -l link-dir -d 'Leave the program alone and put a link with its name into DIR, which must come before the program\'s directory in PATH' -r -f -a "(__fish_complete_directories)"
complete -c create_cudawrap -l wrapper -d 'Make links to this cudawrap' -r -F
complete -c create_cudawrap -l undo -d 'Give the program its name back, the very same file; for a directory: every wrapped program in it'
complete -c create_cudawrap -l repair -d 'Wrap the new program if an upgrade has replaced the link, and keep the older one as CUDAWRAP_name.replaced-1; turn a copy of cudawrap back into a link; renew a link to a cudawrap that no longer exists'
complete -c create_cudawrap -l status -d 'Print a line for each PATH or, if it is a directory, for each wrapped program in it; exit status 1 if one needs attention'
complete -c create_cudawrap -l json -d 'With --status: print JSON'
complete -c create_cudawrap -l all -d 'With --undo, --repair, --status: every path that was recorded when it was wrapped'
complete -c create_cudawrap -s n -l dry-run -d 'Print what would be done'
complete -c create_cudawrap -l force -d 'Also wrap a file of a package, a program under an AppArmor profile, or one on a network file system without cudawrap'
complete -c create_cudawrap -s v -l verbose -d 'Print what is decided and why'
complete -c create_cudawrap -s q -l quiet -d 'Print errors only, no hints'
complete -c create_cudawrap -s V -l version -d 'Print the version'
complete -c create_cudawrap -s h -l help -d 'Print help: the common options (-h) or everything (--help)'
