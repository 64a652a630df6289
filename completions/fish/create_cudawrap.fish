complete -c create_cudawrap -w create-cudawrap
