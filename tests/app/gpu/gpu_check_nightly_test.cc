// tools/gpu-check on a simulated GPU machine: which parts run, how failures and hangs are handled,
// and the contents of the results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/app/gpu/fake_gpu_machine.h"

namespace foretrain {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Without preflight, which always runs first.
constexpr const char* kParts[] = {"build", "devices",   "tests", "memcheck",
                                  "steps", "calibrate", "bench"};

TEST(GpuCheck, HelpNamesPartsOptionsAndExitStatus) {
  const FakeGpuMachine machine;
  const ProgramEnd end = machine.Run("--help");
  EXPECT_EQ(end.code, 0);
  for (const char* part : kParts) EXPECT_THAT(end.output, HasSubstr(part));
  for (const char* word : {"--quick", "--parts", "--again", "--allow-no-gpu", "--build", "--arch",
                           "Exit status: 0 every chosen part passed"}) {
    EXPECT_THAT(end.output, HasSubstr(word));
  }
}

TEST(GpuCheck, RefusesWhatItDoesNotKnowAndNamesIt) {
  const FakeGpuMachine machine;
  const std::pair<const char*, const char*> wrong[] = {
      {"--nonsense", "--nonsense"},
      {"--parts build,launch", "there is no part 'launch'; there are preflight, build, devices"},
      {"--parts ,", "--parts names no part"},
      {"--jobs 0", "--jobs must not be below 1"},
      {"--arch hopper", "--arch: 'hopper' is no architecture such as 90"}};
  for (const auto& [arguments, message] : wrong) {
    const ProgramEnd end = machine.Run(arguments);
    EXPECT_EQ(end.code, 2) << arguments;
    EXPECT_THAT(end.errors, HasSubstr(message));
  }
  machine.folder().Write("out", "a file");
  const ProgramEnd end = machine.Run("");
  EXPECT_EQ(end.code, 2);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("--out: "), Not(HasSubstr("Traceback"))));
}

TEST(GpuCheck, AsksForAGpuUnlessToldThatThereIsNone) {
  const FakeGpuMachine machine;
  machine.folder().Write("bin/nvidia-smi", "#!/bin/sh\nexit 9\n");
  const ProgramEnd end = machine.Run("");
  EXPECT_EQ(end.code, 3);
  EXPECT_THAT(end.errors, HasSubstr("--allow-no-gpu"));
  EXPECT_EQ(machine.Calls(), "");
}

TEST(GpuCheck, RunsAllPartsAndLeavesAReportOfEach) {
  const FakeGpuMachine machine;
  machine.AddSanitizer();
  const ProgramEnd end = machine.Run("--rounds 2");
  ASSERT_EQ(end.code, 0) << end.output << end.errors;
  const nlohmann::json state = machine.State();
  EXPECT_EQ(state.at("schema"), 1);
  EXPECT_EQ(state.at("machine").at("gpus").at(0).at("name"), "Fake GPU");
  EXPECT_EQ(state.at("spans"), 9);  // three a row, of its first round
  for (const char* part : kParts) {
    EXPECT_EQ(machine.StatusOf(part), "passed") << part;
    EXPECT_THAT(machine.Report(), HasSubstr(std::string("\n## ") + part + "\n"));
  }
  EXPECT_THAT(machine.Report(), AllOf(HasSubstr("Fake GPU (143771 MiB, driver 580.1"),
                                      // 0.1 s forecast, 0.125 s measured: 20 % too little
                                      HasSubstr("| other | 100.000 | 125.000 | -20.0 % |")));
  EXPECT_THAT(machine.Calls(), HasSubstr("-DCMAKE_CUDA_ARCHITECTURES=90-real"));
  EXPECT_EQ(state.at("parts").at("memcheck").at("results").size(), 3);
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(machine.out())) {
    ++files;
    EXPECT_LE(file.file_size(), 16U << 20);
  }
  EXPECT_EQ(files, 5);  // report, JSON, log, profile, store
}

TEST(GpuCheck, RunsThePartsThatAreChosen) {
  const FakeGpuMachine machine;
  for (const char* part : kParts) {
    ASSERT_EQ(machine.Run(std::string("--parts ") + part).code, 0) << part;
    for (const char* other : kParts) {
      const bool came = std::string(other) == part;
      if (came) break;
      EXPECT_NE(machine.StatusOf(other), "") << other << " before " << part;
    }
  }
  EXPECT_EQ(machine.StatusOf("memcheck"), "left out");  // there is no compute-sanitizer
  EXPECT_THAT(machine.Report(), HasSubstr("compute-sanitizer was not found"));
}

TEST(GpuCheck, APartThatFailsIsNamedAndTheOthersRun) {
  for (const char* failing : {"devices", "tests", "memcheck", "steps", "calibrate", "bench"}) {
    const FakeGpuMachine machine;
    machine.AddSanitizer();
    const ProgramEnd end = machine.Run("", std::string("FAIL=") + failing);
    EXPECT_EQ(end.code, 1) << failing;
    for (const char* part : kParts) {
      EXPECT_EQ(machine.StatusOf(part), std::string(part) == failing ? "failed" : "passed")
          << part << " where " << failing << " fails";
    }
    EXPECT_THAT(machine.Report(), HasSubstr(std::string("| ") + failing + " | failed |"));
    EXPECT_THAT(end.output, HasSubstr(std::string(failing) + ": failed, "));
  }
}

TEST(GpuCheck, NothingRunsInABuildThatFailed) {
  const FakeGpuMachine machine;
  ASSERT_EQ(machine.Run("--parts build").code, 0);
  const ProgramEnd end = machine.Run("--again", "FAIL=build");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(machine.Report(),
              AllOf(HasSubstr("ninja: build stopped"), HasSubstr("the part build did not pass")));
  EXPECT_THAT(machine.Calls(), Not(HasSubstr("foretrain devices")));
  const FakeGpuMachine empty;
  EXPECT_EQ(empty.Run("--parts steps").code, 1);
  EXPECT_THAT(empty.Report(), HasSubstr("there is no build: run the part build first"));
}

TEST(GpuCheck, WhatPassedIsNotRunAgainForTheSameWork) {
  const FakeGpuMachine machine;
  const auto calls_of = [&](const std::string& arguments, const std::string& settings = "") {
    machine.folder().Write("calls", "");
    EXPECT_EQ(machine.Run(arguments, settings).code, 0) << arguments;
    return machine.Calls();
  };
  ASSERT_EQ(machine.Run("--quick").code, 0);
  EXPECT_EQ(calls_of("--quick"), "");
  EXPECT_THAT(calls_of("--again --parts devices"), HasSubstr("foretrain devices"));
  // The full check does more than the quick one, apart from the build.
  EXPECT_THAT(calls_of(""), AllOf(HasSubstr("calibrate"), Not(HasSubstr("cmake"))));
  EXPECT_EQ(calls_of("--quick"), "");
  EXPECT_THAT(calls_of("--rows other"),
              AllOf(HasSubstr("--only other"), Not(HasSubstr("foretrain train"))));
  EXPECT_THAT(calls_of("", "GPU=Another"), HasSubstr("cmake"));
  std::filesystem::remove_all(machine.folder().path() + "/build");
  EXPECT_THAT(calls_of("--parts build", "GPU=Another"), HasSubstr("cmake"));
}

TEST(GpuCheck, LossesThatDifferOrAreNoNumbersFail) {
  for (const char* losses : {"4.5 4.4 4.2", "4.5 NaN 4.3", "4.5 4.4", "4.5 null 4.3"}) {
    const FakeGpuMachine machine;
    EXPECT_EQ(machine.Run("--parts build,steps", std::string("LOSSES='") + losses + "'").code, 1);
    EXPECT_THAT(machine.Report(), HasSubstr("losses differ")) << losses;  // State() is JSON, too
    EXPECT_EQ(machine.StatusOf("steps"), "failed");
  }
  const FakeGpuMachine machine;
  EXPECT_EQ(machine.Run("--parts build,steps", "GRAPHS='4.5 4.4 4.30001'").code, 1);
  EXPECT_THAT(machine.Report(), HasSubstr("losses with --cuda-graphs on are others"));
  EXPECT_EQ(machine.Run("--parts steps", "LAUNCHES=0").code, 1);
  EXPECT_THAT(machine.Report(), HasSubstr("\"launches\": 0"));
}

TEST(GpuCheck, TestsThatFailAmongOthersOrEndTheProcessAreToldApart) {
  const FakeGpuMachine machine;
  const std::string tests = machine.folder().Write(
      "tests.txt",
      "[ RUN      ] A.One\n[       OK ] A.One (1 ms)\n"
      "[ RUN      ] A.Flaky\nit is 3, not 4\n[  FAILED  ] A.Flaky, where GetParam() = 3 (1 ms)\n"
      "[ RUN      ] A.Crash\n139\n");
  EXPECT_EQ(machine.Run("--parts build,tests", "TESTS='" + tests + "'").code, 1);
  const nlohmann::json result =
      machine.State().at("parts").at("tests").at("results").at("kernels_gpu_tests");
  EXPECT_EQ(result.at("ran"), 4);
  EXPECT_EQ(result.at("passed"), 3);  // including the one after the crash
  EXPECT_TRUE(result.at("failed").contains("A.Crash"));
  EXPECT_THAT(result.at("only_among_others").at("A.Flaky").get<std::string>(),
              HasSubstr("it is 3, not 4"));
}

TEST(GpuCheck, APartThatDoesNotEndIsEndedForTime) {
  const FakeGpuMachine machine;
  machine.AddSanitizer();
  EXPECT_EQ(machine.RunWith("limits.DEADLINE_S['steps'] = 2", "", "HANG=steps").code, 1);
  EXPECT_THAT(machine.Report(), HasSubstr("ended for time: "));
  EXPECT_EQ(machine.StatusOf("bench"), "passed");
  // If everything that ran passed, parts that --quick had no time for are no failure.
  for (const char* part : {"tests", "memcheck"}) {
    const std::string change = std::string("limits.QUICK_S['") + part + "'] = 2";
    const ProgramEnd end = machine.RunWith(
        change, std::string("--again --quick --parts build,") + part, std::string("HANG=") + part);
    EXPECT_EQ(end.code, 0) << end.output;
    EXPECT_EQ(machine.StatusOf(part), "cut short");
  }
  EXPECT_THAT(machine.Report(), HasSubstr("ended for time: kernels_gpu_tests at A.Two"));
}

// The sanitizer itself reports the signal that ends it as an error.
TEST(GpuCheck, ASanitizerThatIsEndedForTimeIsCutShortUnlessItHasFoundSomething) {
  const FakeGpuMachine machine;
  machine.AddSanitizer();
  const std::string change = "limits.DEADLINE_S['memcheck'] = 6";  // 2 s for each of three tools
  ProgramEnd end = machine.RunWith(change, "--parts build,memcheck", "HANG=memcheck");
  EXPECT_EQ(end.code, 0) << end.output;
  EXPECT_EQ(machine.StatusOf("memcheck"), "cut short");
  EXPECT_THAT(machine.Report(),
              HasSubstr("memcheck: time ended after 1 of 3 tests, which were clean"));
  end = machine.RunWith(change, "--parts memcheck", "HANG=memcheck FAIL=memcheck");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(machine.Report(), HasSubstr("Invalid __global__ read"));
}

TEST(GpuCheck, AQuickBuildLeavesTimeToTheOtherParts) {
  const FakeGpuMachine machine;
  // The other parts take 3 + 40 + 15 + 15 + 30 + 60 s, so the build has the remaining 3 s.
  const ProgramEnd end =
      machine.RunWith("limits.QUICK_LIMIT_S = 163 + 10 + 3", "--quick", "HANG=build");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(machine.Report(), HasSubstr("ended for time: cmake --build"));
  EXPECT_LT(machine.State().at("parts").at("build").at("seconds").get<double>(), 30.0);
}

TEST(GpuCheck, AKillLeavesTheReportOfWhatRan) {
  for (const auto& [name, code] : {std::pair("KILL", 137), std::pair("TERM", 143)}) {
    const FakeGpuMachine machine;
    const ProgramEnd end = machine.RunWith(
        std::string("import os, signal, threading, time\n"
                    "def kill():\n"
                    "  while True:\n"
                    "    time.sleep(0.05)\n"
                    "    try: calls = open(os.environ['MACHINE'] + '/calls').read()\n"
                    "    except OSError: continue\n"
                    "    if 'foretrain calibrate' in calls: break\n"
                    "  os.kill(os.getpid(), signal.SIG") +
            name + ")\nthreading.Thread(target=kill, daemon=True).start()",
        "", "HANG=calibrate");
    EXPECT_EQ(end.code, code);
    EXPECT_EQ(machine.StatusOf("steps"), "passed");
    EXPECT_EQ(machine.StatusOf("calibrate"), "not ended");
    EXPECT_EQ(machine.StatusOf("bench"), "");
    EXPECT_THAT(machine.Report(),
                AllOf(HasSubstr("| steps | passed |"), HasSubstr("| calibrate | not ended |")));
    EXPECT_THAT(machine.folder().Read("out/log.txt"), HasSubstr("calibrate --device cuda"));
    // The next run continues from there.
    EXPECT_EQ(machine.Run("").code, 0);
  }
}

TEST(GpuCheck, KeepsTheLimitsOfItsFolderOrSaysWhatBreaksThem) {
  const FakeGpuMachine machine;
  ASSERT_EQ(machine.Run("--parts build,bench", "NOISE=20").code, 0);
  EXPECT_LT(machine.folder().Read("out/log.txt").size(), 16U << 20);
  EXPECT_THAT(machine.folder().Read("out/log.txt"), HasSubstr("(the beginning is left out)"));
  ProgramEnd end =
      machine.RunWith("limits.MAX_SPANS = 100", "--again --parts bench --rows other", "SPANS=101");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.errors, HasSubstr("runs.db has 101 spans, over 100"));
  EXPECT_THAT(machine.Report(), HasSubstr("Over the limits: runs.db has 101 spans, over 100."));
  for (int i = 0; i < 5; ++i) machine.folder().Write("out/" + std::to_string(i), "");
  machine.folder().Write("out/runs.db", "no store");
  end = machine.Run("--parts build");
  EXPECT_EQ(end.code, 1);
  EXPECT_THAT(end.errors, AllOf(HasSubstr("files, over 8"), HasSubstr("runs.db cannot be read")));
}

TEST(GpuCheck, AStateThatCannotBeReadIsBegunAfresh) {
  const FakeGpuMachine machine;
  ASSERT_EQ(machine.Run("--parts build").code, 0);
  for (const char* text : {"", "[1, 2]", "{\"sources\":"}) {
    machine.folder().Write("out/gpu-check.json", text);
    EXPECT_EQ(machine.Run("--parts build,devices").code, 0) << text;
    EXPECT_EQ(machine.StatusOf("devices"), "passed");
  }
}

}  // namespace
}  // namespace foretrain
