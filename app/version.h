// The text of `foretrain --version`.
#pragma once

#include <string>

namespace foretrain {

// Version, commit, compiler and what was left out of the build, in lines that end with a newline.
// Safe from any thread.
std::string VersionText();

}  // namespace foretrain
