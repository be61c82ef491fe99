// Twelve made logs that are slow for a known reason: `check` finds it first in ten of them. The
// machine of a log has other constants than the forecast (tests/app/check/made_log.h).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/app/check/made_log.h"
#include "tests/app/run_binary.h"

namespace foretrain {
namespace {

constexpr int kSteps = 300;
constexpr int kMinFound = 10;  // of twelve

// A Llama without grouped queries, of 2,048 or 8,192.
std::string Megatron(int nodes, int per_node, int tp, int micro_batch, int batch, int layers,
                     int hidden, int heads, int sequence, const std::string& more) {
  return fmt::format(
      "torchrun --nnodes {} --nproc_per_node {} pretrain_gpt.py --tensor-model-parallel-size {} "
      "--micro-batch-size {} --global-batch-size {} --num-layers {} --hidden-size {} "
      "--num-attention-heads {} --seq-length {} --max-position-embeddings {} --swiglu "
      "--normalization RMSNorm --position-embedding-type rope --disable-bias-linear "
      "--untie-embeddings-and-output-weights --attention-dropout 0 --hidden-dropout 0 --vocab-size "
      "32000 --bf16 --use-distributed-optimizer --lr 3e-4 --train-iters 1000 --save-interval 500 "
      "--log-interval 1 {}\n",
      nodes, per_node, tp, micro_batch, batch, layers, hidden, heads, sequence, sequence, more);
}

std::string Torchtitan(int local_batch) {
  return fmt::format(
      "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nlocal_batch_size = {}\n"
      "global_batch_size = 128\nseq_len = 1024\nsteps = 1000\n[parallelism]\n"
      "data_parallel_shard_degree = -1\n[activation_checkpoint]\nmode = \"selective\"\n"
      "selective_ac_option = \"op\"\n[compile]\nenable = true\n",
      local_batch);
}

std::string DeepSpeed(bool overlaps) {
  return fmt::format(
      "{{\"train_micro_batch_size_per_gpu\": 4, \"gradient_accumulation_steps\": 1, \"bf16\": "
      "{{\"enabled\": true}}, \"gradient_clipping\": 1.0, \"zero_optimization\": {{\"stage\": 1, "
      "\"overlap_comm\": {}, \"reduce_bucket_size\": 5e8}}}}\n",
      overlaps);
}

std::string Nanotron(int dp, int tp, int accumulation) {
  return fmt::format(
      "parallelism: {{dp: {}, pp: 1, tp: {}, tp_mode: REDUCE_SCATTER, recompute_layer: false}}\n"
      "model:\n  dtype: bfloat16\n  model_config: {{hidden_size: 8192, intermediate_size: 22016, "
      "max_position_embeddings: 2048, num_attention_heads: 64, num_hidden_layers: 16, "
      "num_key_value_heads: 64, rms_norm_eps: 1.0e-05, tie_word_embeddings: false, vocab_size: "
      "49152}}\noptimizer: {{accumulate_grad_in_fp32: true, clip_grad: 1.0, zero_stage: 1}}\n"
      "tokens: {{sequence_length: 2048, micro_batch_size: 1, batch_accumulation_per_replica: "
      "{}}}\n",
      dp, tp, accumulation);
}

std::string Trainer(int micro_batch, int accumulation) {
  return fmt::format(
      "accelerate launch --num_processes 8 sft.py --model_name_or_path qwen3-4b "
      "--per_device_train_batch_size {} --gradient_accumulation_steps {} --max_length 1024 --bf16 "
      "True --gradient_checkpointing True --learning_rate 2e-5 --save_steps 500\n",
      micro_batch, accumulation);
}

struct Case {
  const char* name;
  const char* trainer;
  const char* file;
  std::string text;
  const char* machine;  // options beside --from
  RunFault fault;
  const char* cause;  // Name(CauseKind) of the reason
  bool has_timers = false;
};

std::vector<Case> Cases() {
  const std::string overlap = "--overlap-grad-reduce --overlap-param-gather";
  const std::string usual = Megatron(1, 8, 1, 4, 256, 24, 2048, 16, 1024, overlap);
  const char* const node = "--cluster 1x8xh100";
  const char* const fours = "--cluster 4x4xh100";
  const char* const eight = "--cluster 8x8xh100";
  const char* const gpt2 = "--cluster 8x8xh100 --model gpt2-xl --sequence 1024";
  const RunFault none = RunFault::kNone, hot = RunFault::kThrottling, data = RunFault::kDataLoader;
  return {{"small micro-batch", "megatron", "a.sh",
           Megatron(1, 8, 1, 1, 256, 24, 2048, 16, 1024, overlap), node, none, "micro-batch"},
          {"tp 8 on nodes of 4", "megatron", "b.sh",
           Megatron(4, 4, 8, 1, 32, 16, 8192, 64, 4096, "--sequence-parallel " + overlap), fours,
           none, "tp-across-nodes"},
          {"no overlap of gradients", "megatron", "c.sh",
           Megatron(8, 8, 1, 1, 64, 32, 2048, 16, 2048, ""), eight, none, "gradient-overlap"},
          {"throttled GPUs", "megatron", "d.sh", usual, node, hot, "throttling"},
          {"data loader, with timers", "megatron", "e.sh", usual, node, data, "data-loader", true},
          {"small micro-batch", "torchtitan", "f.toml", Torchtitan(1), "--cluster 4x8xh100", none,
           "micro-batch"},
          {"data loader", "torchtitan", "g.toml", Torchtitan(4), "--cluster 4x8xh100", data,
           "data-loader"},
          {"no overlap of gradients", "deepspeed", "h.json", DeepSpeed(false), gpt2, none,
           "gradient-overlap"},
          {"throttled GPUs", "deepspeed", "i.json", DeepSpeed(true), gpt2, hot, "throttling"},
          {"tp 8 on nodes of 4", "nanotron", "j.yaml", Nanotron(2, 8, 32), fours, none,
           "tp-across-nodes"},
          {"small micro-batch", "huggingface", "k.sh", Trainer(1, 16), node, none, "micro-batch"},
          {"data loader", "huggingface", "l.sh", Trainer(4, 4), node, data, "data-loader"}};
}

// Prints the table of docs/check.md: case, trainer, measured over attainable, first cause, share.
TEST(CheckOfMadeLogs, FindsTheReasonFirstInTenOfTwelve) {
  const TemporaryFolder folder;
  int found = 0;
  std::uint32_t seed = 1;
  for (const Case& one : Cases()) {
    const std::string path = folder.Write(one.file, one.text);
    const std::string options = fmt::format("--from {}:{} {}", one.trainer, path, one.machine);
    MadeRun run;
    run.options = options;
    run.fault = one.fault;
    run.has_timers = one.has_timers;
    run.seed = seed++;
    folder.Write("run.log", MakeLog(run, kSteps).text);
    const ProgramEnd end =
        RunForetrain(folder.path(), "check " + options + " --log run.log --json");
    ASSERT_TRUE(end.code == 0 || end.code == 1) << one.name << ": " << end.errors;
    const auto json = nlohmann::json::parse(end.output, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(json.is_object()) << one.name << ": " << end.output;
    const std::string first = json["causes"].empty() ? "none" : json["causes"][0]["cause"];
    const double share = json["causes"].empty() ? 0 : json["causes"][0]["share"].get<double>();
    const double measured_s = json["step_time_s"], attainable_s = json["attainable_step_time_s"];
    std::printf("| %s | %s | %.2f | %s | %.0f %% | %s |\n", one.trainer, one.name,
                measured_s / attainable_s, first.c_str(), 100 * share,
                json["verdict"].get<std::string>().c_str());
    if (first == one.cause) ++found;
  }
  EXPECT_GE(found, kMinFound);
}

}  // namespace
}  // namespace foretrain
