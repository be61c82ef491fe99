// The files of a checkpoint (docs/checkpoints.md):
//
//   DIR/step-00000120/rank-00000.safetensors  pieces of state
//                     rank-00000.json         which pieces these are, with checksums
//                     manifest.json           step, model, plan, data, command line
//
// This header has their contents as text. Writing: saver.h; reading: checkpoint.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/model/model_spec.h"
#include "sim/config/plan/plan.h"
#include "sim/program/state/state_pieces.h"

namespace foretrain {

// Time that a training has taken, over all of its runs.
struct TrainingTime {
  std::int64_t began_unix_ns = 0;  // 0: unknown, of an older checkpoint
  std::int64_t paused_ns = 0;      // between a run that ended by itself and the next
  std::int64_t steps_ns = 0;       // of the steps that are in the checkpoint
  std::int64_t saved_unix_ns = 0;
  bool ended = false;  // the run ended with this checkpoint and did not fail
};

// The time of a run that goes on from a checkpoint with `saved`. What passed since a run that
// failed counts, what passed since one that ended by itself does not.
TrainingTime ContinuedTime(TrainingTime saved, std::int64_t now_unix_ns);

// Share of the time since the training began that became steps which are kept, in (0, 1]; 0:
// unknown.
double GoodputOf(const TrainingTime& time, std::int64_t now_unix_ns);

// How the run that wrote a checkpoint was started and how far it came.
struct Manifest {
  std::int64_t step = 0;               // steps done: number of the next one
  std::uint64_t program = 0;           // Program::hash
  std::vector<std::uint32_t> indexes;  // CRC-32C of each rank's index, by rank
  std::uint64_t seed = 0;
  std::uint64_t data = 0;  // digest of the training data
  TrainingTime time;
  std::vector<double> losses;  // of the last steps (LossSpikes); empty: unknown
  ModelSpec model;
  Plan plan;
  std::string version;                 // of foretrain
  std::vector<std::string> arguments;  // of the command, without those about checkpoints
};

// A piece in a rank's file. The bindings in `piece` are not stored.
struct SavedPiece {
  StatePiece piece;
  std::int64_t begin = 0;  // byte of the file; its scales follow its data
  std::int64_t data_bytes = 0;
  std::int64_t scale_bytes = 0;
  std::uint32_t crc = 0;  // CRC-32C of data and scales

  std::int64_t bytes() const { return data_bytes + scale_bytes; }
};

// Contents of one rank's file of tensors.
struct RankFile {
  int rank = 0;
  std::int64_t bytes = 0;         // of the whole file
  std::int64_t header_bytes = 0;  // before the first piece
  std::uint32_t header_crc = 0;
  std::vector<SavedPiece> pieces;  // in file order, without gaps
};

std::string TensorsName(int rank);  // "rank-00003.safetensors"
std::string IndexName(int rank);    // "rank-00003.json"

// JSON texts that begin with a CRC-32C of everything after it.
std::string ManifestText(const Manifest& manifest);
std::string RankFileText(const RankFile& file);

// Errors: kCorruptInput, naming `source` and the field: a wrong checksum, no JSON, a missing field,
// a value out of range, or pieces that overlap or leave gaps. Bounded by the text's size.
Result<Manifest> ParseManifest(std::string_view text, std::string_view source);
Result<RankFile> ParseRankFile(std::string_view text, std::string_view source);

// The header of the file of tensors, as safetensors has it: 8 bytes of length and JSON. A tensor is
// called by kind and name, and by rows, columns or elements if the piece is a part of it.
std::string TensorsHeader(const std::vector<SavedPiece>& pieces);

}  // namespace foretrain
