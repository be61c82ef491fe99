#include "app/version.h"

#include "app/build_info.h"

namespace foretrain {

std::string VersionText() {
  std::string text = "foretrain ";
  text.append(kBuildInfo.version).append("\ncommit ").append(kBuildInfo.commit);
  text.append("\ncompiler ").append(kBuildInfo.compiler);
  text.append(" (").append(kBuildInfo.build_type).append(")\nleft out: ");
  text.append(kBuildInfo.left_out.empty() ? "nothing" : kBuildInfo.left_out).append("\n");
  return text;
}

}  // namespace foretrain
