"""errors.py driver_types.h: the errors of which CUDA's header says that the program cannot go on, then "of" and all of them."""
import re
import sys

with open(sys.argv[1]) as file:
    text = re.search(r"enum\s+__device_builtin__\s+cudaError\s*\{(.*?)\n\}", file.read(), re.S).group(1)
errors = [(" ".join(words.replace("*", " ").split()), int(number))
          for words, number in re.findall(r"/\*\*(.*?)\*/\s*cuda\w+\s*=\s*(\d+)", text, re.S)]
final = [number for words, number in errors if "process must be terminated" in words]
assert len(final) > 8 and len(errors) > 100, (final, len(errors))
print(*final, "of", *[number for _, number in errors if number])
