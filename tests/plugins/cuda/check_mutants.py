#!/usr/bin/env python3
"""Lets one instruction of the plugin's kernels behave wrongly and expects that a test of the kernels notices.

usage: check_mutants.py TESTS LIBRARIES mutants.csv [--update]
  TESTS      the executable kernels_gpu_tests
  LIBRARIES  the folder of the tests' CUDA libraries
  --update   searches tests for mutants that have none, and writes the file anew

mutants.csv has a row for each mutant of one instance of each kernel: the test and the order of threads that notice
it, or the reason why nothing can. Each barrier, fence and arrival is left out in turn. Each wait for asynchronous
copies or products lets one more group be pending, and each wait for an mbarrier is over at once. The first ldmatrix
loads transposed, or no longer does. The first mma exchanges the registers of b, the first wgmma its orientation. The
first bulk copy reads one element later.
"""
import concurrent.futures
import csv
import os
import re
import subprocess
import sys
import tempfile

ALL = '*/cuda_gpu'
FIELDS = ['kernel', 'site', 'instruction', 'test', 'order', 'reason']
EACH = ('bar.sync', 'bar.warp.sync', 'cp.async.wait_group', 'mbarrier.arrive', 'mbarrier.try_wait', 'wgmma.fence',
        'wgmma.wait_group', 'fence.mbarrier_init', 'fence.proxy.async')
FIRST = ('ldmatrix', 'mma', 'wgmma.mma_async', 'cp.async.bulk')


def stable(name):
    """A mangled name without the part of an anonymous namespace that depends on the build's folder."""
    return re.sub(r'\d+_GLOBAL__N__[0-9a-f]{8}_\d+_\w+?_cu_[0-9a-f]{8}', '', name)


def family(name):
    """The kernel's name, with the type of its terms if it sums any."""
    kernel = re.search(r'\d([A-Z][A-Za-z]*?Kernel)', name)[1]
    term = re.search(r'(HeadTerm|CodeTerm|NormWeightTerm|BiasTerm|NotFinite|SquareOfLse|Square|PickLogit|PickOfRanks)', name)
    return kernel + (' of ' + term[1] if term else '')


def mutants(instructions):
    """Numbers of the instructions that a mutant changes."""
    return {i for i, instruction in enumerate(instructions)
            if instruction in EACH or instruction in FIRST and instructions.index(instruction) == i}


class Runs:
    def __init__(self, tests, libraries):
        self.tests, self.libraries = tests, libraries

    def run(self, test, settings, *options):
        """Exit status and output; a run that does not end counts as a failure."""
        environment = dict(os.environ, LD_LIBRARY_PATH=self.libraries, FORETRAIN_FAKE_CUDA=settings)
        try:
            end = subprocess.run([self.tests, '--unguarded', '--gtest_fail_fast', f'--gtest_filter={test}', *options],
                                 env=environment, capture_output=True, text=True, timeout=300, check=False)
            return end.returncode, end.stdout
        except subprocess.TimeoutExpired:
            return 1, ''

    def report(self, test, settings=''):
        """Kernels that a test launched, and the sites of all kernels."""
        with tempfile.NamedTemporaryFile('r', suffix='.txt') as file:
            status, output = self.run(test, f'races=0,report={file.name}{settings}')
            if status != 0:
                sys.exit(f'{test} fails without a change:\n{output[-2000:]}')
            lines = [line.split() for line in file if line.startswith(('launched ', 'never '))]
        return {line[1] for line in lines if line[0] == 'launched'}, {line[1]: line[2:] for line in lines}

    def notices(self, kernel, site, test, order):
        libraries = ',libraries=0' if 'Gemm' in kernel else ''
        return self.run(test, f'order={order},mutant={kernel}:{site}{libraries}')[0] != 0

    def names(self):
        """All tests that can notice anything."""
        suite, names = '', []
        for line in self.run(ALL, 'gpus=1', '--gtest_list_tests')[1].splitlines():
            if not line.startswith(' '):
                suite = line.split()[0] if line.strip() else suite
            else:
                names.append(suite + line.split()[0])
        return names


def check(runs, rows, sites):
    names = {stable(name): name for name in sites}
    wrong = []

    def problem(row):
        name = names.get(row['kernel'])
        if name is None or int(row['site']) >= len(sites[name]) or sites[name][int(row['site'])] != row['instruction']:
            return 'is not in the plugin; run with --update'
        if not row['test']:
            return None if row['reason'] else 'is noticed by no test and has no reason'
        if runs.notices(name, row['site'], row['test'], row['order']):
            return None
        return f'may be wrong: {row["test"]} passes with the mutant in {row["order"]} order'

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row, text in zip(rows, pool.map(problem, rows)):
            if text:
                wrong.append(f'{row["kernel"]}: {row["instruction"]} {row["site"]} {text}')
    known = {(row['kernel'], int(row['site'])) for row in rows}
    families = {family(row['kernel']) for row in rows}
    for name, instructions in sites.items():
        mine = {site for kernel, site in known if kernel == stable(name)}
        if mutants(instructions) and family(name) not in families or mine and mine != mutants(instructions):
            wrong.append(f'{stable(name)}: its mutants are not in the file; run with --update')
    noticed = sum(1 for row in rows if row['test'])
    print('\n'.join(wrong + [f'{len(rows)} mutants: {noticed} are noticed, {len(rows) - noticed} change nothing']))
    return 1 if wrong else 0


def update(runs, rows, sites):
    old = {(row['kernel'], row['site'], row['instruction']): row for row in rows}
    launches = {}
    for test in runs.names():
        launches[test] = runs.report(test)[0]
        if 'Gemm' in test:
            launches[test] |= runs.report(test, ',libraries=0')[0]
    # Of each kernel the instance that most tests launch.
    count = {name: sum(name in launched for launched in launches.values()) for name in sites}
    chosen = {}
    for name in sorted(sites):
        if mutants(sites[name]) and count[name] > count.get(chosen.get(family(name)), 0):
            chosen[family(name)] = name

    def row_of(task):
        name, site = task
        row = dict.fromkeys(FIELDS, '') | {'kernel': stable(name), 'site': str(site), 'instruction': sites[name][site]}
        before = old.get((row['kernel'], row['site'], row['instruction']))
        if before and before['test'] and runs.notices(name, site, before['test'], before['order']):
            return before
        for test in sorted((t for t in launches if name in launches[t]), key=lambda t: len(launches[t])):
            for order in ('random', 'forward', 'reverse'):
                if runs.notices(name, site, test, order):
                    return row | {'test': test, 'order': order}
        return row | {'reason': before['reason'] if before else ''}

    tasks = [(name, site) for name in chosen.values() for site in sorted(mutants(sites[name]))]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        return list(pool.map(row_of, tasks))


def main():
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    runs = Runs(sys.argv[1], sys.argv[2])
    rows = []
    if os.path.exists(sys.argv[3]):
        with open(sys.argv[3], encoding='utf-8', newline='') as file:
            rows = list(csv.DictReader(file))
    sites = runs.report('*CopyRows*')[1]
    if sys.argv[4:] == ['--update']:
        rows = update(runs, rows, sites)
        with open(sys.argv[3], 'w', encoding='utf-8', newline='') as file:
            writer = csv.DictWriter(file, FIELDS, lineterminator='\n')
            writer.writeheader()
            writer.writerows(rows)
    return check(runs, rows, sites)


sys.exit(main())
