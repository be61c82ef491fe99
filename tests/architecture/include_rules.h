// Which file may include what. A rule works on a path in the repository and one include line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace foretrain {

struct IncludeLine {
  int line = 0;
  std::string header;
  bool quoted = false;  // "header" rather than <header>
};

// The include lines of a C++ or CUDA source, those behind #if as well.
std::vector<IncludeLine> IncludesOf(std::string_view source);

// Why `path` may not include `include`, or "" when it may.
std::string WhyNot(std::string_view path, const IncludeLine& include);

}  // namespace foretrain
