// Tells before any work is done that a file cannot be made where it was asked for.
#pragma once

#include <string>

namespace foretrain {

// Why no file can be made at `path`, with a remedy and without the path itself; "" if one can.
// Looks at the folders of the path alone: whether the file exists does not matter. A system may
// still refuse to make the file, for want of space for example.
std::string WhyNoFileCanBeMade(const std::string& path);

}  // namespace foretrain
