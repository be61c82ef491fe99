// The origin of this build. cmake/build_info.cmake writes the values.
#pragma once

#include <string_view>

namespace foretrain {

struct BuildInfo {
  std::string_view version;     // "0.1.0"
  std::string_view commit;      // first 12 digits, or "unknown" outside a git checkout
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // "Release"
  std::string_view left_out;    // parts not in this build, "CUDA, MPI"; empty when none
};

extern const BuildInfo kBuildInfo;

}  // namespace foretrain
