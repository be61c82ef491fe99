// Lines as each trainer prints them, and their steps.
#include "sim/check/logs/trainer_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/check/logs/log_formats.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TrainerLog Read(const std::string& text, const std::string& file = "train.log") {
  const auto log = ReadTrainerLog(text, file);
  EXPECT_TRUE(log.has_value()) << log.error().message;
  return log.value_or(TrainerLog{});
}

// 64 samples of 1,024 tokens on 8 ranks.
Plan PlanOfTests() {
  Plan plan;
  plan.dp = 8;
  plan.global_batch = 64;
  plan.micro_batch = 1;
  plan.sequence = 1024;
  return plan;
}

TEST(TrainerLog, ReadsMegatronWithItsArgumentsTimersAndMemory) {
  const TrainerLog log = Read(
      "  micro_batch_size ................................ 2\n"
      "  tensor_model_parallel_size ...................... 4\n"
      " [2026-01-05 10:00:00] iteration       10/     500 | consumed samples:         2560 | "
      "elapsed time per iteration (ms): 1234.5 | throughput per GPU (TFLOP/s/GPU): 400.1 | "
      "learning "
      "rate: 1.000000E-04 | global batch size:   256 | lm loss: 9.876543E+00 | loss scale: 1.0 |\n"
      "[Rank 0] (after 10 iterations) memory (MB) | allocated: 100.0 | max allocated: 200.0 | "
      "reserved: 300.0 | max reserved: 400.0\n"
      "(min, max) time across ranks (ms):\n"
      "    forward-compute ................................: (600.10, 610.20)\n"
      "    batch-generator ................................: (12.30, 45.60)\n"
      " [2026-01-05 10:00:12] iteration       20/     500 | consumed samples:         5120 | "
      "elapsed time per iteration (ms): 1100.0 |\n");
  EXPECT_EQ(log.format, "megatron");
  ASSERT_EQ(log.steps.size(), 2U);
  EXPECT_EQ(log.steps[1].step, 20);
  EXPECT_EQ(log.steps[1].line, 8);
  EXPECT_DOUBLE_EQ(log.steps[0].step_s, 1.2345);
  EXPECT_EQ(log.peak_bytes, std::int64_t{400} << 20);
  ASSERT_EQ(log.timers.size(), 2U);
  EXPECT_EQ(log.timers[0].name, "batch-generator");
  EXPECT_DOUBLE_EQ(log.timers[0].seconds.at(0), 0.0456);  // of the slowest rank
  EXPECT_DOUBLE_EQ(log.timers[1].seconds.at(0), 0.6102);
  ASSERT_EQ(log.keys.size(), 3U);
  EXPECT_EQ(log.keys[0].key, "micro_batch_size");
  EXPECT_EQ(log.keys[0].value, "2");
  EXPECT_EQ(log.keys[2].key, "global-batch-size");
  EXPECT_EQ(log.keys[2].value, "256");
}

// 65,536 tokens a step are 8,192 a device: 2.5 s at 3,276.8 tokens/s.
TEST(TrainerLog, ReadsTorchtitanWithAndWithoutColours) {
  const TrainerLog plain = Read(
      "[rank0]:[titan] 2026-01-05 10:00:00,000 - root - INFO - Trainer is initialized with local "
      "batch size 8, global batch size 64, gradient accumulation steps 1, sequence length 1024\n"
      "[rank0]:[titan] 2026-01-05 10:00:09,000 - root - INFO - step: 10  loss:  7.1234  grad_norm: "
      " "
      "1.2  memory: 45.10GiB(56.90%)  tps: 3,276.8  tflops: 200.10  mfu: 20.23%\n");
  EXPECT_EQ(plain.format, "torchtitan");
  ASSERT_EQ(plain.steps.size(), 1U);
  EXPECT_EQ(plain.steps[0].step, 10);
  EXPECT_DOUBLE_EQ(StepSecondsOf(plain, PlanOfTests()).at(0), 2.5);
  EXPECT_EQ(plain.peak_bytes, static_cast<std::int64_t>(45.10 * 1073741824));
  EXPECT_EQ(plain.keys.size(), 3U);
  const TrainerLog coloured = Read(
      "\x1b[31mstep: 10 \x1b[32mloss:  7.1234 \x1b[33mmemory: 45.10GiB(56.90%) \x1b[34mtps: "
      "3,276.8 \x1b[36mtflops: 200.10 \x1b[35mmfu: 20.23%\x1b[39m\n");
  EXPECT_EQ(coloured.steps.at(0).step, 10);
  EXPECT_DOUBLE_EQ(coloured.steps.at(0).tokens_per_s_device, 3276.8);
}

TEST(TrainerLog, ReadsBothLinesOfDeepSpeed) {
  const TrainerLog pipeline =
      Read("steps: 10 loss: 9.5123 iter time (s): 0.512 samples/sec: 31.25\n");
  EXPECT_EQ(pipeline.format, "deepspeed");
  EXPECT_DOUBLE_EQ(pipeline.steps.at(0).step_s, 0.512);
  const TrainerLog timer = Read(
      "[2026-01-05 10:00:00,000] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  "
      "4\n"
      "[2026-01-05 10:00:00,000] [INFO] [config.py:1001:print]   zero_optimization_stage ...... 2\n"
      "[2026-01-05 10:00:01,000] [INFO] [timer.py:260:stop] epoch=0/micro_step=20/global_step=10, "
      "RunningAvgSamplesPerSec=30.5, CurrSamplesPerSec=32.0, MemAllocated=2.3GB, "
      "MaxMemAllocated=8.0GB\n");
  EXPECT_EQ(timer.steps.at(0).step, 10);
  EXPECT_DOUBLE_EQ(StepSecondsOf(timer, PlanOfTests()).at(0), 2);  // 64 samples
  EXPECT_EQ(timer.peak_bytes, std::int64_t{8} << 30);
}

TEST(TrainerLog, ReadsNanotronsShortNumbers) {
  const TrainerLog log = Read(
      "01/05/2026 10:00:00 [INFO|DP=0|PP=0|TP=0]: iteration: 20 / 100 | consumed_tokens: 10.5M | "
      "elapsed_time_per_iteration_ms: 1.25K | tokens_per_sec: 52.4K | tokens_per_sec_per_gpu: "
      "6.55K "
      "| global_batch_size: 65.5K | lm_loss: 5.1 | lr: 0.0003 | model_tflops_per_gpu: 210 |\n"
      " Memory usage: 1000.00MiB. Peak allocated 2000.00MiB. Peak reserved: 3000.00MiB\n");
  EXPECT_EQ(log.format, "nanotron");
  EXPECT_EQ(log.steps.at(0).step, 20);
  EXPECT_DOUBLE_EQ(log.steps.at(0).step_s, 1.25);
}

// The bar of the evaluation takes less time than that of the training.
TEST(TrainerLog, ReadsProgressBarsOfTheTrainer) {
  const TrainerLog log = Read(
      "  Instantaneous batch size per device = 8\n"
      "\r  0%|          | 0/100 [00:00<?, ?it/s]\r  1%|          | 1/100 [00:09<14:51,  9.00s/it]"
      "\r  2%|1         | 2/100 [00:11<09:00,  2.50s/it]"
      "\r  3%|1         | 3/100 [00:13<04:00,  2.00s/it, loss=2.1]\n"
      "\r  5%|#         | 1/20 [00:00<00:03,  5.00it/s]\r 10%|#         | 2/20 [00:00<00:03,  "
      "5.00it/s]\n"
      "{'train_runtime': 250.0, 'train_samples_per_second': 25.6, 'train_steps_per_second': "
      "0.4}\n");
  EXPECT_EQ(log.format, "huggingface");
  ASSERT_EQ(log.steps.size(), 3U);
  EXPECT_DOUBLE_EQ(log.steps[2].step_s, 2);
  EXPECT_DOUBLE_EQ(log.summary.samples_per_s, 25.6);
  EXPECT_EQ(log.keys.at(0).value, "8");
}

TEST(TrainerLog, ReadsTheSpeedInATrainerState) {
  const TrainerLog log = Read(
      "{\"log_history\": [{\"loss\": 2.5, \"step\": 10}, {\"step\": 20, \"train_runtime\": 50.0, "
      "\"train_samples_per_second\": 32.0}], \"max_steps\": 20}",
      "trainer_state.json");
  EXPECT_EQ(log.format, "huggingface");
  EXPECT_THAT(StepSecondsOf(log, PlanOfTests()), testing::ElementsAre(2.0));
}

TEST(TrainerLog, TakesAStepOnceWhereRanksLogTogether) {
  const TrainerLog log = Read(
      "[rank0]: step: 1 loss: 7.1 tps: 100\n[rank1]: step: 1 loss: 7.1 tps: 101\n"
      "[rank0]: step: 2 loss: 7.1 tps: 100\n");
  EXPECT_EQ(log.steps.size(), 2U);
}

TEST(TrainerLog, RefusesOtherFilesInOneSentence) {
  const auto other = ReadTrainerLog("hello\nworld\n", "notes.txt");
  ASSERT_FALSE(other.has_value());
  EXPECT_THAT(other.error().message, AllOf(HasSubstr("notes.txt"), HasSubstr("Megatron-LM"),
                                           HasSubstr("give what one of them printed")));
  const auto binary = ReadTrainerLog(std::string("step: 1\0tps: 2", 14), "a.bin");
  ASSERT_FALSE(binary.has_value());
  EXPECT_EQ(binary.error().code, ErrorCode::kCorruptInput);
  const auto state = ReadTrainerLog("{\"log_history\": []}", "trainer_state.json");
  ASSERT_FALSE(state.has_value());
  EXPECT_THAT(state.error().message, HasSubstr("train_samples_per_second"));
}

TEST(TrainerLog, PassesOverNumbersThatAreNone) {
  const auto log = ReadTrainerLog(
      "step: x tps: 1\nstep: 1 tps: -5\nstep: 2 tps: 1e999\nstep: 3 tps:\nstep: 4 tps: 100\n"
      "iteration elapsed time per iteration (ms):\n",
      "train.log");
  ASSERT_TRUE(log.has_value()) << log.error().message;
  ASSERT_EQ(log->steps.size(), 1U);
  EXPECT_EQ(log->steps[0].step, 4);
}

TEST(LogFormats, NameFileAndFieldOfAnError) {
  const auto formats = LogFormatsFromJson("{\"formats\": [{\"name\": \"x\"}]}", "table.json");
  ASSERT_FALSE(formats.has_value());
  EXPECT_THAT(formats.error().message, AllOf(HasSubstr("table.json"), HasSubstr("title")));
}

}  // namespace
}  // namespace foretrain
