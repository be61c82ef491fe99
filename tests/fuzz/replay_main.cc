// Runs a fuzz target on the files of folders, for builds without libFuzzer: seeds and past
// findings.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/units.h"
#include "tests/fuzz/fuzz.h"

int main(int argc, char** argv) {
  std::vector<std::string> paths;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i])) {
      if (entry.is_regular_file()) paths.push_back(entry.path().string());
    }
  }
  std::sort(paths.begin(), paths.end());
  foretrain::PosixFileSystem files;
  for (const std::string& path : paths) {
    const auto text = foretrain::ReadFile(files, path, foretrain::kMiB);
    if (!text.has_value()) {
      std::fprintf(stderr, "%s\n", text.error().message.c_str());
      return 1;
    }
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);  // the last line names the culprit of a crash
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(text->data()), text->size());
  }
  std::printf("%zu inputs\n", paths.size());
  return paths.empty() ? 1 : 0;
}
