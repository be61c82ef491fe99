#!/usr/bin/env python3
"""Translates a PTX module to C++ for the tests' CUDA device.

usage: ptx_to_cpp.py MODULE.ptx OUT.cc

Each .entry and .func becomes a function that executes one thread; instructions.h defines the instructions.
An instruction that is not known here ends the translation with its text and exit status 1.
"""
import re
import sys

from ptx_asynchronous import Asynchronous

CPP_TYPES = {
    'b8': 'std::uint8_t', 'u8': 'std::uint8_t', 's8': 'std::int8_t',
    'b16': 'std::uint16_t', 'u16': 'std::uint16_t', 's16': 'std::int16_t', 'f16': 'Half', 'bf16': 'Bfloat',
    'b32': 'std::uint32_t', 'u32': 'std::uint32_t', 's32': 'std::int32_t', 'f32': 'float',
    'b64': 'std::uint64_t', 'u64': 'std::uint64_t', 's64': 'std::int64_t', 'f64': 'double', 'pred': 'bool',
}
BYTES = {name: 1 if name == 'pred' else int(name.lstrip('bsuf')) // 8 for name in CPP_TYPES}
REGISTERS = {'pred': 'bool', 1: 'std::uint8_t', 2: 'std::uint16_t', 4: 'std::uint32_t', 8: 'std::uint64_t'}
WIDE = {'u16': 'u32', 's16': 's32', 'u32': 'u64', 's32': 's64'}
BITS = {'float': 4, 'double': 8, 'Half': 2, 'Bfloat': 2}  # C++ types that are no integers, and their bytes
SPECIAL = {f'%{name}.{axis}': f't.{member}.{axis}' for name, member in
           (('tid', 'index'), ('ctaid', 'block->index'), ('ntid', 'block->size'), ('nctaid', 'block->grid'))
           for axis in 'xyz'}

# Instructions without memory or other lanes: the opcode without its type, and the types of the result and operands.
# T: the instruction's type, W: twice as wide, U: u32, P: a predicate. C: reads or writes the carry.
PLAIN = {
    'T TT': 'add sub mul div min max and or xor add.rn sub.rn mul.rn div.rn mul.lo mul.hi rem copysign',
    'T T': 'neg abs not brev sqrt.rn rcp.rn rcp.approx.ftz ex2.approx.ftz',
    'T TTT': 'mad.lo fma.rn fma.rm',
    'W TT': 'mul.wide',
    'T TU': 'shl shr',
    'U T': 'clz popc bfind.shiftamt',
    'U UUU': 'prmt',
    'T TTUU': 'bfi',
    'T TTP': 'selp',
    'P TT': ' '.join('setp.' + c for c in 'eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan'.split()),
    'TC TT': 'add.cc addc addc.cc sub.cc subc subc.cc',
    'TC TTT': 'mad.lo.cc madc.lo madc.hi madc.lo.cc madc.hi.cc',
}
SIGNATURES = {opcode: signature for signature, opcodes in PLAIN.items() for opcode in opcodes.split()}
CONVERSIONS = {'', 'rn', 'rzi', 'rni', 'rmi', 'rpi', 'sat'}


def fail(what):
    sys.exit(f'{sys.argv[1]}: the tests\' CUDA device does not know {what}; add it to ptx_to_cpp.py and to the instructions beside it')


def split(operands):
    """Operands at the outer level of brackets and braces."""
    parts, depth, part = [], 0, ''
    for character in operands:
        depth += (character in '{[(') - (character in '}])')
        if character == ',' and depth == 0:
            parts.append(part.strip())
            part = ''
        else:
            part += character
    return parts + [part.strip()] if part.strip() else parts


def inner(operand):
    """Operands within braces or brackets."""
    return split(operand.strip()[1:-1])


def name_of(symbol):
    return 'r_' + re.sub(r'\W', '_', symbol.lstrip('%'))


def cast(cpp, bits):
    """The bits of a register or constant as a value; integers take the low ones."""
    return f'__builtin_bit_cast({cpp}, {bits})' if cpp in BITS else f'{cpp}({bits})'


class Declaration:
    """A variable in a state space, such as `.shared .align 4 .b8 tile[128]`."""
    PATTERN = re.compile(r'(?:\.(?:extern|weak|visible) )*\.(shared|global|const|local|param) (?:\.align (\d+) )?'
                         r'\.(\w+) ([\w$]+)(?:\[(\d*)\])?(?: ?= ?(.*))?$', re.S)

    def __init__(self, text):
        match = self.PATTERN.match(re.sub(r'\s+', ' ', text.strip()))
        if not match:
            fail(f'the declaration "{text[:120]}"')
        self.space, align, self.type, self.name, count, self.values = match.groups()
        self.align = int(align or BYTES[self.type])
        self.bytes = BYTES[self.type] * (int(count) if count else 0 if count == '' else 1)


class Module:
    def __init__(self, text):
        self.constants, self.shared = {}, {}
        self.functions, self.code = [], []
        self.read(re.sub(r'//.*', '', text))

    def read(self, text):
        at = 0
        while match := re.compile(r'\s*(\S)').match(text, at):
            at = match.start(1)
            if re.compile(r'\.(version|target|address_size)').match(text, at):
                at = text.index('\n', at)
                continue
            kind = re.compile(r'(?:\.(?:visible|weak|extern)\s+)*\.(entry|func)\b').match(text, at)
            end = text.index(';', at)
            brace = text.find('{', at)
            if not kind:
                self.declare(Declaration(text[at:end]))
            elif brace != -1 and brace < end:
                end = self.end_of_body(text, brace)
                self.functions.append(Function(self, kind.group(1), text[at:brace], text[brace + 1:end]))
            at = end + 1

    @staticmethod
    def end_of_body(text, at):
        depth = 0
        while True:
            depth += (text[at] == '{') - (text[at] == '}')
            if depth == 0:
                return at
            at += 1

    def declare(self, variable):
        if variable.space == 'shared':
            self.shared[variable.name] = variable
        else:
            self.constants[variable.name] = variable

    def cpp(self):
        lines = ['#include "tests/plugins/cuda/instructions.h"', 'namespace foretrain::ptx {', 'namespace {']
        for variable in self.constants.values():
            values = (variable.values or '{0}').strip()
            lines.append(f'alignas(16) constexpr {CPP_TYPES[variable.type]} c_{name_of(variable.name)}'
                         f'[{variable.bytes // BYTES[variable.type]}] = {values};')
        for function in self.functions:
            if function.kind == 'func':
                lines.append(function.head() + ';')
        for function in self.functions:
            lines += [function.head() + ' {', '[[maybe_unused]] std::uint32_t carry = 0;',
                      f'std::uint32_t sums[{len(function.sums)}];' if function.sums else '', *function.lines, '}']
        lines += ['const bool registered = [] {']
        lines += [f'AddConstant(c_{name_of(name)}, {variable.bytes});' for name, variable in self.constants.items()]
        for function in self.functions:
            if function.kind == 'entry':
                sizes = ', '.join(str(p.bytes) for p in function.parameters)
                sites = ', '.join(f'"{site}"' for site in function.sites)
                uses_mbarriers = str(any(site.startswith('mbarrier') for site in function.sites)).lower()
                lines.append(f'AddKernel({{"{function.name}", &{function.cpp_name}, {function.shared_bytes}, '
                             f'{function.max_threads}, {{{sizes}}}, {{{sites}}}, {uses_mbarriers}}});')
        return '\n'.join(lines + ['return true;', '}();', '}', '}', ''])


class Function(Asynchronous):
    fail, inner, name_of = staticmethod(fail), staticmethod(inner), staticmethod(name_of)

    def __init__(self, module, kind, head, body):
        self.module, self.kind = module, kind
        match = re.search(r'\.(?:entry|func)\s*(\([^)]*\))?\s*([\w$]+)\s*(?:\(([^)]*)\))?', head)
        result, self.name, parameters = match.groups()
        self.parameters = [Declaration(p) for p in split(parameters or '')]
        if result:
            self.parameters.append(Declaration(result[1:-1]))
        limit = re.search(r'\.maxntid (\d+), (\d+), (\d+)', head)
        self.max_threads = int(limit[1]) * int(limit[2]) * int(limit[3]) if limit else 1024
        self.cpp_name = f'{kind}_{name_of(self.name)}'
        self.registers, self.locals, self.sites, self.lines = {}, {}, [], []
        self.place_shared(body)
        self.sums = self.registers_with_sums(body)
        self.read(body)

    def head(self):
        const = 'const ' if self.kind == 'entry' else ''
        return f'void {self.cpp_name}(Thread& t, {const}std::byte* const* parameters)'

    def place_shared(self, body):
        """Offsets of the shared variables that the body names: those of fixed size, then the dynamic one."""
        for text in re.findall(r'(?<!\w)\.shared [^;]*', body):
            variable = Declaration(text)
            self.module.shared[variable.name] = variable
        names = set(re.findall(r'[\w$]+', body))
        self.shared, end = {}, 0
        for variable in self.module.shared.values():
            if variable.bytes and variable.name in names:
                end = -(-end // variable.align) * variable.align
                self.shared[variable.name] = end
                end += variable.bytes
        self.shared_bytes = -(-end // 16) * 16
        for variable in self.module.shared.values():
            if not variable.bytes:
                self.shared[variable.name] = self.shared_bytes

    def read(self, body):
        token = re.compile(r'\s*(?:([{}])|([\w$]+):(?!:)|(?=\S))')
        at = 0
        self.begin_block()
        while (match := token.match(body, at)) and match.end() < len(body.rstrip()) + 1:
            at = match.end()
            if match[1]:
                self.lines.append(match[1] if match[1] == '{' else ';}')
            elif match[2]:
                self.lines.append(name_of(match[2]) + ':;')
                self.begin_block()
            elif at < len(body.rstrip()):
                end = self.end_of_statement(body, at)
                text = re.sub(r'\s+', ' ', body[at:end].strip())
                self.lines.append(self.statement(text))
                if re.match(r'(@!?%\w+ )?(bra|ret|exit)\b', text):
                    self.begin_block()
                at = end + 1
            else:
                return

    def begin_block(self):
        """Begins a basic block, whose first line counts its instructions."""
        self.block, self.instructions = len(self.lines), 0
        self.lines.append('')

    def count_instruction(self):
        self.instructions += 1
        self.lines[self.block] = f'Count(t, {self.instructions});'

    @staticmethod
    def end_of_statement(body, at):
        return body.index(';', at)

    # ---- operands

    def symbol(self, name):
        for number, parameter in enumerate(self.parameters):
            if parameter.name == name:
                return f'Address(parameters[{number}])'
        if name in self.locals:
            return f'Address(l_{name})'
        if name in self.shared:
            return f'std::uint64_t{{{self.shared[name]}}}'
        if name in self.module.constants:
            return f'Address(c_{name_of(name)})'
        fail(f'the symbol {name} of {self.name}')

    def value(self, operand, type_):
        """C++ expression of the operand as CPP_TYPES[type_]."""
        cpp = CPP_TYPES[type_]
        if type_ == 'pred':
            if operand.startswith('!'):
                return '!' + name_of(operand[1:])
            return name_of(operand) if operand.startswith('%') else 'true' if operand in ('-1', '1') else 'false'
        if match := re.match(r'0[fF]([0-9a-fA-F]{8})$', operand):
            return cast(cpp, f'0x{match[1]}U')
        if match := re.match(r'0[dD]([0-9a-fA-F]{16})$', operand):
            return cast(cpp, f'std::uint64_t{{0x{match[1]}}}')
        if match := re.match(r'(-?(?:0[xX][0-9a-fA-F]+|\d+))U?$', operand):
            return f'{cpp}({int(match[1], 0) & (1 << 64) - 1}ULL)'
        if operand in SPECIAL:
            return f'{cpp}({SPECIAL[operand]})'
        if operand.startswith('%'):
            if operand not in self.registers:
                fail(f'the register {operand}')
            return cast(cpp, name_of(operand))
        name, _, offset = operand.partition('+')
        return f'{cpp}({self.symbol(name)} + {int(offset or 0)})'

    def address(self, operand):
        base, _, offset = operand.strip('[] ').partition('+')
        start = name_of(base) if base.startswith('%') else self.symbol(base)
        return f'{start} + {int(offset)}' if offset else start

    def set(self, register, value, cpp='std::uint32_t'):
        """Writes a value of a C++ type. A wider register keeps the sign of signed values."""
        if register == '_':
            return ''
        width = BYTES[self.registers[register]]
        if cpp in BITS and BITS[cpp] == width:
            value = f'__builtin_bit_cast({REGISTERS[width]}, {value})'
        elif cpp in BITS:
            value = f'__builtin_bit_cast({REGISTERS[BITS[cpp]]}, {value})'
        return f'{name_of(register)} = {value};'

    # ---- statements

    def statement(self, text):
        if text.startswith('.reg'):
            return self.declare_registers(text)
        if text.startswith('.local') or text.startswith('.param'):
            variable = Declaration(text)
            self.locals[variable.name] = variable
            return f'alignas(16) std::byte l_{variable.name}[{variable.bytes}];'
        if text.startswith(('.pragma', '.loc', '.file', '.shared')):
            return ''
        guard = re.match(r'@(!?)(%\w+) (.*)$', text)
        condition, text = (f'if ({guard[1]}{name_of(guard[2])}) ', guard[3]) if guard else ('', text)
        opcode, _, operands = text.partition(' ')
        self.count_instruction()
        return f'{condition}{{ {self.instruction(opcode, split(operands))} }}'

    def declare_registers(self, text):
        type_, names = re.match(r'\.reg \.(\w+) (.*)$', text).groups()
        declared = []
        for name in split(names):
            bank = re.match(r'(%?[\w$]+)<(\d+)>$', name)
            declared += [f'{bank[1]}{i}' for i in range(int(bank[2]))] if bank else [name]
        for name in declared:
            self.registers[name] = type_
        cpp = REGISTERS['pred' if type_ == 'pred' else BYTES[type_]]
        plain = ', '.join(name_of(name) for name in declared if name not in self.sums)
        # Sums lie in one array, so that products reach them by number.
        sums = ', '.join(f'&{name_of(name)} = sums[{self.sums[name]}]' for name in declared if name in self.sums)
        return (f'{cpp} {plain};' if plain else '') + (f'{cpp} {sums};' if sums else '')

    def instruction(self, opcode, operands):
        parts = opcode.split('.')
        translate = getattr(self, 'translate_' + parts[0], None)
        if translate and (translated := translate(opcode, parts, operands)) is not None:
            return translated
        return self.plain(opcode, parts, operands)

    def plain(self, opcode, parts, operands):
        base, type_ = '.'.join(parts[:-1]), parts[-1]
        if base not in SIGNATURES or type_ not in CPP_TYPES:
            fail(f'"{opcode}"')
        result, arguments = SIGNATURES[base].split()
        types = {'T': type_, 'W': WIDE.get(type_), 'U': 'u32', 'P': 'pred'}
        values = [self.value(operand, types[letter]) for operand, letter in zip(operands[1:], arguments, strict=True)]
        if 'C' in result:
            values.insert(0, 'carry')
        call = f'Do_{base.replace(".", "_")}<{CPP_TYPES[type_]}>({", ".join(values)})'
        return self.set(operands[0], call, CPP_TYPES[types[result[0]]])

    def site(self, what):
        """Number of an instruction that a mutant may change; kept with the entry."""
        self.sites.append(what)
        return len(self.sites) - 1

    def translate_bra(self, opcode, parts, operands):
        return f'goto {name_of(operands[0])};'

    def translate_ret(self, opcode, parts, operands):
        return 'return;'

    def translate_exit(self, opcode, parts, operands):
        return 'return;' if self.kind == 'entry' else fail('exit in a function')

    def translate_trap(self, opcode, parts, operands):
        return 'Fail(t, Fault::kTrap, "trap");'

    def translate_call(self, opcode, parts, operands):
        result, function, arguments = operands
        pointers = ', '.join('l_' + name for name in inner(arguments) + inner(result))
        return f'std::byte* const of_call[] = {{{pointers}}}; func_{name_of(function)}(t, of_call);'

    def translate_bar(self, opcode, parts, operands):
        if opcode == 'bar.sync' and operands == ['0']:
            return f'BarSync(t, {self.site("bar.sync")});'
        if opcode == 'bar.sync' and len(operands) == 2:
            number, threads = (self.value(operand, 'u32') for operand in operands)
            return f'BarSyncNamed(t, {self.site(opcode)}, {number}, {threads});'
        if opcode == 'bar.warp.sync':
            return f'BarWarpSync(t, {self.site("bar.warp.sync")}, {self.value(operands[0], "u32")});'
        return fail(f'"{opcode} {operands}"')

    def translate_mov(self, opcode, parts, operands):
        to, source = operands
        type_ = parts[-1]
        if to.startswith('{'):
            part = f'b{8 * BYTES[type_] // len(inner(to))}'
            lines = [self.set(register, f'{CPP_TYPES[part]}(whole >> {8 * BYTES[part] * i})')
                     for i, register in enumerate(inner(to))]
            return f'const auto whole = {self.value(source, type_)}; {" ".join(lines)}'
        if source.startswith('{'):
            part = f'b{8 * BYTES[type_] // len(inner(source))}'
            terms = [f'(std::uint64_t{{{self.value(register, part)}}} << {8 * BYTES[part] * i})'
                     for i, register in enumerate(inner(source))]
            return self.set(to, " | ".join(terms))
        return self.set(to, self.value(source, type_), CPP_TYPES[type_])

    # Loads and stores: `.vN` moves N neighbours with one access, which is aligned to all of them.
    def access(self, parts, address):
        vector = next((int(part[1:]) for part in parts if part in ('v2', 'v4')), 1)
        space = next(part for part in parts[1:] if part in ('global', 'shared', 'local', 'param', 'const'))
        bytes_ = BYTES[parts[-1]] * vector
        if space in ('local', 'param', 'const'):
            return f'Pointer({self.address(address)})', bytes_ // vector
        kind = {'ld': 'Read', 'st': 'Write'}[parts[0]]
        return f'{space.title()}{kind}<{bytes_}>(t, {self.address(address)})', bytes_ // vector

    def translate_ld(self, opcode, parts, operands):
        pointer, step = self.access(parts, operands[1])
        registers = inner(operands[0]) if operands[0].startswith('{') else [operands[0]]
        loads = [self.set(register, f'Load<{CPP_TYPES[parts[-1]]}>(at + {step * i})', CPP_TYPES[parts[-1]])
                 for i, register in enumerate(registers)]
        return f'const std::byte* const at = {pointer}; {" ".join(loads)}'

    def translate_st(self, opcode, parts, operands):
        pointer, step = self.access(parts, operands[0])
        values = inner(operands[1]) if operands[1].startswith('{') else [operands[1]]
        stores = [f'Store(at + {step * i}, {self.value(value, parts[-1])});' for i, value in enumerate(values)]
        return f'std::byte* const at = {pointer}; {" ".join(stores)}'

    def translate_atom(self, opcode, parts, operands):
        if opcode != 'atom.global.add.u32':
            return fail(f'"{opcode}"')
        return self.set(operands[0], f'AtomicAdd(t, {self.address(operands[1])}, {self.value(operands[2], "u32")})')

    def translate_cvta(self, opcode, parts, operands):
        value = self.value(operands[1], 'u64')
        return self.set(operands[0], {
            'cvta.to.global.u64': value,
            'cvta.shared.u64': f'ToGeneric(t, {value})',
            'cvta.to.shared.u64': f'ToShared(t, {value})',
            'cvta.param.u64': value,
        }.get(opcode) or fail(f'"{opcode}"'))

    def translate_cvt(self, opcode, parts, operands):
        to, source = parts[-2:]
        if to in ('f16x2', 'bf16x2'):
            half = CPP_TYPES[to[:-2]]
            high, low = (self.value(operand, 'f32') for operand in operands[1:])
            return self.set(operands[0], f'ConvertPair<{half}>({high}, {low})')
        if to in ('e4m3x2', 'e5m2x2') and parts[1:3] == ['rn', 'satfinite'] and source == 'f32':
            high, low = (self.value(operand, 'f32') for operand in operands[1:])
            return self.set(operands[0], f'ConvertTo{to[:-2].title()}({high}, {low})')
        rounding = '.'.join(parts[1:-2])
        if rounding not in CONVERSIONS:
            return fail(f'"{opcode}"')
        function = 'Do_cvt' + (f'_{rounding}' if rounding else '')
        call = f'{function}<{CPP_TYPES[to]}, {CPP_TYPES[source]}>({self.value(operands[1], source)})'
        return self.set(operands[0], call, CPP_TYPES[to])

    # ---- instructions of a warp

    def translate_shfl(self, opcode, parts, operands):
        name = {'bfly': 'Butterfly', 'idx': 'Index', 'up': 'Up'}.get(parts[2])
        if not name or parts[1] != 'sync':
            return fail(f'"{opcode}"')
        register, _, valid = operands[0].partition('|')
        values = ', '.join(self.value(operand, 'u32') for operand in operands[1:])
        is_valid = f't.lane() >= {self.value(operands[2], "u32")}' if name == 'Up' else 'true'
        is_valid = f'{name_of(valid)} = {is_valid}; ' if valid else ''
        return is_valid + self.set(register, f'Shuffle{name}(t, {values})')

    def translate_vote(self, opcode, parts, operands):
        if opcode != 'vote.sync.ballot.b32':
            return fail(f'"{opcode}"')
        return self.set(operands[0], f'Ballot(t, {self.value(operands[1], "pred")}, {self.value(operands[2], "u32")})')

    def translate_ldmatrix(self, opcode, parts, operands):
        if opcode not in ('ldmatrix.sync.aligned.m8n8.x4.shared.b16', 'ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16'):
            return fail(f'"{opcode}"')
        transposed = 'true' if 'trans' in parts else 'false'
        sets = ' '.join(self.set(register, f'loaded[{i}]') for i, register in enumerate(inner(operands[0])))
        return (f'const auto loaded = LoadMatrices(t, {self.site("ldmatrix")}, {self.address(operands[1])}, '
                f'{transposed}); {sets}')

    def translate_mma(self, opcode, parts, operands):
        number = re.match(r'mma\.sync\.aligned\.m16n8k16\.row\.col\.f32\.(f16|bf16)\.\1\.f32$', opcode)
        if not number:
            return fail(f'"{opcode}"')
        a, b, c = (inner(operand) for operand in operands[1:])
        words = ', '.join(self.value(register, 'b32') for register in a + b)
        sums = ', '.join(self.value(register, 'f32') for register in c)
        sets = ' '.join(self.set(register, f'sums[{i}]', 'float') for i, register in enumerate(inner(operands[0])))
        return (f'const auto sums = MultiplyTile<{CPP_TYPES[number[1]]}>(t, {self.site("mma")}, {{{words}}}, '
                f'{{{sums}}}); {sets}')

    def translate_cp(self, opcode, parts, operands):
        if opcode.startswith('cp.async.bulk'):
            return self.copy_bulk(opcode, operands)
        if opcode == 'cp.async.commit_group':
            return 'CommitCopies(t);'
        if opcode == 'cp.async.wait_group':
            return f'AwaitCopies(t, {self.site(opcode)}, {int(operands[0])});'
        if opcode not in ('cp.async.cg.shared.global', 'cp.async.ca.shared.global'):
            return fail(f'"{opcode}"')
        source_bytes = self.value(operands[3], 'u32') if len(operands) > 3 else operands[2] + 'U'
        return (f'CopyAsync<{int(operands[2])}>(t, {self.address(operands[0])}, {self.address(operands[1])}, '
                f'{source_bytes});')


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding='utf-8') as source:
        module = Module(source.read())
    with open(sys.argv[2], 'w', encoding='utf-8') as out:
        out.write(module.cpp())


main()
