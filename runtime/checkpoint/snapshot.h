// A copy of the state that one rank saves, in host memory, so that its file is written beside the
// next steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/io/file_system.h"
#include "base/result.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/device/arena.h"

namespace foretrain {

class Snapshot {
 public:
  // `pieces`: those that `rank` saves (SavedPieces). Errors: kResourceExhausted, no memory for
  // them, with their bytes.
  static Result<Snapshot> Make(int rank, std::vector<StatePiece> pieces);

  // Copies the state as it is now, between two steps. Errors: the arena's.
  Result<void> Take(const RankArena& arena);

  // Writes both of the rank's files into `folder`, and makes their contents survive a loss of
  // power. Replaces files of those names. Errors: the file system's; kNotFinite, a value of the
  // state is infinite or NaN: nothing is written then.
  Result<void> Write(FileSystem& files, const std::string& folder) const;

  int rank() const { return rank_; }
  std::int64_t bytes() const { return bytes_; }

 private:
  Result<void> CheckFinite() const;

  int rank_ = 0;
  std::vector<StatePiece> pieces_;
  std::int64_t bytes_ = 0;
  std::unique_ptr<std::byte[]> data_;  // pieces, one after the other
};

}  // namespace foretrain
