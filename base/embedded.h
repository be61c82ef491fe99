// A data file that was made part of the program at build time. Leaves out files on disk.
#pragma once

#include <span>
#include <string_view>

namespace foretrain {

struct EmbeddedFile {
  std::string_view path;  // in the repository, e.g. "sim/spec/models.csv"
  std::string_view text;
};

// The file named `path` among `files`, or null. O(n); safe from any thread.
inline const EmbeddedFile* FindEmbedded(std::span<const EmbeddedFile> files,
                                        std::string_view path) {
  for (const EmbeddedFile& file : files) {
    if (file.path == path) return &file;
  }
  return nullptr;
}

}  // namespace foretrain
