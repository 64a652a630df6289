"""A pick as earlier scripts made it: a Python program that runs a command for a list of all devices, reads its text and prints one
without processes, at random. The command is the C scan of client.c, which is the least that nvidia-smi could cost."""
import random
import subprocess

LISTING = subprocess.run(["client", "all"], check=True, capture_output=True, text=True).stdout
IDLE = [fields[1] for fields in map(str.split, LISTING.splitlines()) if fields[3] == "0"]
print(random.choice(IDLE))
