// Which preset stands for the system behind a family of published runs, and what a family's rows
// leave to be known. Leaves out what is measured.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace foretrain {

struct RunFamily {
  std::string name;           // "korth"
  std::string preset;         // of most rows
  std::string zero_3_preset;  // of rows with ZeRO-3; empty: `preset`
  // Of rows numbered from `first` to `last` ("bloom-110"), which the source says ran another system.
  struct Rows {
    std::int64_t first = 0, last = 0;
    std::string preset;
  };
  std::vector<Rows> rows;
  // Query heads where a row states none; 0: hidden / 128.
  std::map<std::int64_t, std::int64_t> heads_of_hidden;
  std::int64_t heads = 0;  // of other hidden sizes
  // Where stages do not divide the layers, embedding and head are dealt as a layer each.
  bool end_blocks_count = false;
  // What its rows call selective recomputation: of every so many-th layer in full; 0: of
  // the core of attention.
  int selective_every = 0;
  // Stands before what its rows say of recomputation, where its source is silent; empty: nothing.
  std::string recompute;
  int adapters_per_node = 0;  // of its machine; 0: one a device
  // Room for rows of experts over an even share, where its source forces loads to be even but for
  // the tokens of one batch (Switch Transformer, section 2.2: 1.25); 0: for all that may come.
  double expert_headroom = 0;
  // Stages end where they pass their share of parameters (StageLayersByParameters).
  bool stages_by_parameters = false;

  // The preset of the row `id` of the family. `sharded`: with ZeRO-3.
  const std::string& PresetOf(std::string_view id, bool sharded) const;
};

struct RunFamilies {
  std::vector<RunFamily> families;
  // Of families that are not listed: by whether the MLP is gated.
  std::string gated_preset, plain_preset;

  // The family called `name`, or one with the preset of unlisted ones.
  RunFamily Find(std::string_view name, bool gated) const;
};

// The families in `text`; `file` is for messages. Errors: naming file, field, value and remedy.
Result<RunFamilies> RunFamiliesFromJson(std::string_view text, std::string_view file);

// Those that are part of the program (sim/validate/families.json).
Result<RunFamilies> BuiltInRunFamilies();

}  // namespace foretrain
