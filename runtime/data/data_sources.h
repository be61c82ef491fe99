// Reads the text of --data: files, folders and patterns, mixed by weights.
#pragma once

#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"

namespace foretrain {

// Files that are read one after another, as one stream.
struct DataSource {
  std::vector<std::string> files;
  double weight = 1;  // share of all samples, relative to the other sources
};

// The files of a path: a file; a folder, which stands for its files in the order of their names,
// without .idx and hidden files; a pattern with *, ? or [...] in its last part; or the common part
// of Megatron's NAME.bin and NAME.idx. Errors: kInvalidArgument, nothing is there, or a folder or
// pattern holds no file; those of the file system.
Result<std::vector<std::string>> FilesOf(FileSystem& files, const std::string& path);

// `text` is PATH[:WEIGHT], or several of them with commas between. With weights each path is a
// source, without any all files are one source. A file whose name is all of `text` is taken as it
// is.
//
// Errors: those of FilesOf; kInvalidArgument, naming the part: a weight is not above 0, some paths
// have weights and others do not, or more than 256 have weights.
Result<std::vector<DataSource>> ParseDataSources(FileSystem& files, const std::string& text);

}  // namespace foretrain
