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
#include "runtime/checkpoint/moment_codes.h"
#include "runtime/device/arena.h"

namespace foretrain {

class StateLoader {
 public:
  // `same_program`: the pieces are those of this program, so that all buffers can be copied.
  StateLoader(const Program& program, const RankProgram& rank, RankArena& arena, bool same_program);

  // Copies what this rank holds of the piece, rounded to its own format. `bytes`: its data and
  // scales. Errors: kUnsupported, bytes where numbers are wanted; the arena's.
  Result<void> Take(const SavedPiece& saved, std::span<const std::byte> bytes);

  // Stores everything. Errors: kInvalidArgument, naming a tensor of which a part did not come; the
  // arena's.
  Result<void> Finish();

 private:
  struct Target {
    StatePiece piece;
    std::int64_t filled = 0;  // elements
  };

  // 8-bit moments, by the buffer of their codes.
  struct Codes {
    std::int32_t scales = -1;  // buffer
    MomentCodes codes;
  };
  // Elements of a piece that follow one another in the target too.
  struct Run {
    std::int64_t from = 0;  // counted in the piece
    std::int64_t to = 0;    // counted in the target
    std::int64_t count = 0;
  };

  Result<void> Fill(Target& target, const SavedPiece& saved, std::span<const std::byte> bytes);
  Result<void> Copy(const StatePiece& to, const SavedPiece& saved, std::span<const std::byte> bytes,
                    const Run& run);
  MomentCodes& CodesOf(const StatePiece& to);
  // First byte of the buffer in host memory: its own, or a copy that Finish stores.
  Result<std::byte*> HostCopy(std::int32_t buffer);

  RankArena& arena_;
  const bool same_program_;
  std::map<std::pair<StateKind, std::string>, std::vector<Target>> targets_;
  std::map<std::int32_t, std::vector<std::byte>> copies_;  // by buffer
  std::map<std::int32_t, Codes> codes_;
};

}  // namespace foretrain
