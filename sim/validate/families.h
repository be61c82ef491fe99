// Families of published runs: the preset of the system behind each, and settings that its rows
// leave out. Measured values are in run_table.h.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "sim/config/plan/plan.h"
#include "sim/config/plan/system_options.h"
#include "sim/validate/run_table.h"

namespace foretrain {

struct RunFamily {
  std::string name;           // such as "korth"
  std::string preset;         // preset of most rows
  std::string zero_3_preset;  // preset of rows with ZeRO-3; empty: `preset`
  // Rows numbered `first` to `last` ("bloom-110") that, according to the source, ran on another
  // system.
  struct Rows {
    std::int64_t first = 0, last = 0;
    std::string preset;
  };
  std::vector<Rows> rows;
  // Options of the preset's system, and the number format, that differ in rows whose notes contain
  // `words`.
  struct Noted {
    std::string words;
    std::string dtype;             // in place of the row's; empty: as the row states
    RecomputeModules modules = 0;  // that selective recomputation drops; several entries add up
    std::optional<AttentionKernel> attention;
    std::optional<bool> fused_norm, fused_softmax, fused_elementwise, fused_loss, node_dispatch;
    std::optional<double> host_op_s, ep_overlap;
  };
  std::vector<Noted> noted;
  // Query heads of rows that state none, by hidden size.
  std::map<std::int64_t, std::int64_t> heads_of_hidden;
  std::int64_t heads = 0;  // query heads for other hidden sizes; 0: hidden / 128
  // Where stages do not divide the layers, embedding and head each count as a layer.
  bool end_blocks_count = false;
  // Meaning of selective recomputation in its rows. n > 0: every n-th layer is recomputed fully. 0:
  // the core of attention is recomputed.
  int selective_every = 0;
  // Recomputation of all its rows, whatever they state; empty: as each row states.
  std::string recompute;
  int adapters_per_node = 0;  // network adapters of a node; 0: one per device
  // Bus bandwidth of gathers in undisturbed jobs, by the largest number of nodes that it holds for.
  std::map<int, double> gather_bytes_per_s;
  double network_hop_s = 0;  // ClusterSpec::network_latency_s; 0: the usual
  double slow_launch_s = 0;  // ClusterSpec::member_launch_s of jobs with slower gathers
  // Splits layers among stages by parameters (StageLayersByParameters).
  bool stages_by_parameters = false;

  // Sets the options of `system` that the row's notes change.
  void ApplyNotes(std::string_view notes, SystemOptions& system) const;
  // Number format of `run`: the one that its notes imply, else the one that it states.
  const std::string& DtypeOf(const PublishedRun& run) const;
  // Modules that the notes of `run` name; 0: none.
  RecomputeModules ModulesOf(const PublishedRun& run) const;
  // Preset of row `id` of this family; empty for a family that is not listed. `sharded`: the row
  // has ZeRO-3.
  const std::string& PresetOf(std::string_view id, bool sharded) const;
};

// Preset for rows that neither state one nor belong to a listed family. A row meets it if each
// value that is given here is at most the row's.
struct DefaultPreset {
  std::string preset;
  std::string because;  // what the rows have in common, for people
  int zero_stage = 0, pp = 1, tp = 1;
  std::int64_t experts = 0;
  bool gated_mlp = false;          // only rows with a gated MLP
  bool sequence_parallel = false;  // only rows with sequence parallelism
  std::string method;              // only rows with this method; empty: any

  bool IsForAll() const {
    return zero_stage == 0 && pp == 1 && tp == 1 && experts == 0 && !gated_mlp &&
           !sequence_parallel && method.empty();
  }
};

struct RunFamilies {
  std::vector<RunFamily> families;
  std::vector<DefaultPreset> defaults;  // the last one has no conditions

  // The family called `name`; an unlisted name gets a family without a preset.
  RunFamily Find(std::string_view name) const;
  // The first default that `run` meets.
  const DefaultPreset& DefaultOf(const PublishedRun& run) const;
};

// Families in `text`; `file` is for messages. Errors name file, field, value and remedy.
Result<RunFamilies> RunFamiliesFromJson(std::string_view text, std::string_view file);

// Built-in families (sim/validate/families.json).
Result<RunFamilies> BuiltInRunFamilies();

}  // namespace foretrain
