// Fills one rank's state from pieces of a checkpoint, which other plans may have cut otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "runtime/checkpoint/checkpoint_files.h"
#include "runtime/device/arena.h"

namespace foretrain {

class StateLoader {
 public:
  // `same_program`: the pieces are those of this program, so that all buffers can be copied.
  StateLoader(const Program& program, const RankProgram& rank, RankArena& arena, bool same_program);

  // Copies what this rank holds of the piece. `bytes`: its data and scales. Errors: kUnsupported,
  // 8-bit moments of another program or in another format; the arena's.
  Result<void> Take(const SavedPiece& saved, std::span<const std::byte> bytes);

  // Stores everything. Errors: kInvalidArgument, naming a tensor of which a part did not come; the
  // arena's.
  Result<void> Finish();

 private:
  struct Target {
    StatePiece piece;
    std::int64_t filled = 0;  // elements
  };

  Result<void> Fill(Target& target, const SavedPiece& saved, std::span<const std::byte> bytes);
  // First byte of the buffer in host memory: its own, or a copy that Finish stores.
  Result<std::byte*> HostCopy(std::int32_t buffer);

  RankArena& arena_;
  const bool same_program_;
  std::map<std::pair<StateKind, std::string>, std::vector<Target>> targets_;
  std::map<std::int32_t, std::vector<std::byte>> copies_;  // by buffer
};

}  // namespace foretrain
