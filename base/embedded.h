// Data files that the build compiles into the program.
#pragma once

#include <span>
#include <string_view>

namespace foretrain {

struct EmbeddedFile {
  std::string_view path;  // in the repository, e.g. "sim/config/catalogue/models.csv"
  std::string_view text;
};

// The file at `path` among `files`; null if there is none. O(n); safe from any thread.
inline const EmbeddedFile* FindEmbedded(std::span<const EmbeddedFile> files,
                                        std::string_view path) {
  for (const EmbeddedFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace foretrain
