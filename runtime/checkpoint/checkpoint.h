// A checkpoint that was read and checked, and its way back into an executor's memory, under the
// plan that wrote it or any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/executor/executor.h"

namespace foretrain {

class Checkpoint {
 public:
  // Reads the descriptions in the folder `path`, not yet the tensors. Errors: kCorruptInput or
  // kInvalidArgument, naming the file: one is missing, damaged, or not as large as it should be.
  static Result<Checkpoint> Open(FileSystem& files, const std::string& path);

  // Reads everything and compares all checksums. Errors: kCorruptInput, naming file, first byte and
  // tensor.
  Result<void> Verify(FileSystem& files) const;

  // Checks that the state of `program` is all here. Needs no device memory. Errors:
  // kInvalidArgument, naming the first tensor that is missing, or both shapes.
  Result<void> CheckFits(const Program& program) const;

  // Fills the state of all ranks of `executor`, between two runs. Numbers of another format are
  // rounded. Buffers of kind kRank are loaded if the program is the same; else they keep their
  // first values. Errors: those of Verify, for each piece before it is used; the arena's.
  Result<void> Load(FileSystem& files, Executor& executor) const;

  const Manifest& manifest() const { return manifest_; }
  const std::vector<RankFile>& ranks() const { return ranks_; }
  const std::string& path() const { return path_; }
  std::int64_t bytes() const;  // of all files of tensors

 private:
  std::string path_;
  Manifest manifest_;
  std::vector<RankFile> ranks_;
};

// Reads one piece of the file at `path`. Errors: kCorruptInput, naming file, bytes and tensor: its
// checksum is wrong, or the file ends in it.
Result<void> ReadPiece(ReadableFile& file, const std::string& path, const SavedPiece& saved,
                       std::vector<std::byte>& bytes);

// The newest checkpoint of a folder that passes Verify, or the checkpoint at `path` itself.
struct NewestCheckpoint {
  Checkpoint checkpoint;
  std::vector<std::string> damaged;  // errors of newer ones, newest first
};

//   verify  compare all checksums; else only those of the descriptions, which is quick
//
// Errors: kInvalidArgument, no checkpoint; kCorruptInput, all are damaged.
Result<NewestCheckpoint> OpenNewest(FileSystem& files, const std::string& path, bool verify = true);

}  // namespace foretrain
