// Rules for includes. A rule takes a path in the repository and one include line.
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

// The include lines of a C++ or CUDA source, including those under #if.
std::vector<IncludeLine> IncludesOf(std::string_view source);

// Reason why `path` may not include `include`; "" if it may.
std::string WhyNot(std::string_view path, const IncludeLine& include);

}  // namespace foretrain
