// Reads launch files of tests/data/launch as the program does.
#pragma once

#include <string>
#include <vector>

#include "sim/config/launch/read_launch.h"

namespace foretrain {

// The built-in dialects; fails the test if they cannot be read.
std::vector<Dialect> AllDialects();

// Reads `text` as a file called `file` of the dialect, on a machine with 8 devices.
Result<Launch> ReadText(const std::string& dialect, const std::string& file,
                        const std::string& text, bool strict = false);

// Reads tests/data/launch/`path`, with the files that it names.
Result<Launch> ReadLaunchFile(const std::string& dialect, const std::string& path);

// The text of a plan's field in a launch; empty if it gives none.
std::string OptionIn(const Launch& launch, std::string_view field);

}  // namespace foretrain
