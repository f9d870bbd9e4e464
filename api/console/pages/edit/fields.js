// The fields of a campaign. Those that are promised once it is published are closed then.

import { html } from '../../core/view.js';
import { offset, time, zoneName } from '../../core/times.js';
import { Choice, Field, Text, Tick } from '../../parts/field.js';

const KINDS = [['percent_off', 'A percentage off'], ['amount_off', 'An amount off'], ['free_shipping', 'Free shipping']];
const UNITS = [['s', 'seconds'], ['min', 'minutes'], ['h', 'hours'], ['d', 'days']];
const MODES = [
  ['direct', 'When it has landed (direct)'], ['spill', 'Direct, and queued beyond what MySQL lands (spill)'], ['queued', 'At once, it lands later (queued)'],
];
const AFTER = [['topic', 'the topic has it: survives any loss of Redis'], ['replica', 'a replica of the gate has it'], ['gate', 'the gate has it: fastest']];

export function Fields({ form, change, wrong, twice, state, isNew }) {
  const isDraft = state === 'draft';
  const set = (name) => (value) => change({ [name]: value });
  const text = (name, label, more = {}) => html`<${Field} id=${name} label=${label} wrong=${wrong[name]} help=${more.help}>
    <${Text} id=${name} value=${form[name]} change=${set(name)} wrong=${wrong[name]} disabled=${more.isPromised && !isDraft} ...${more.input || {}} /><//>`;
  const at = (name, label) => html`<${Instant} name=${name} label=${label} form=${form} change=${change} wrong=${wrong[name]} either=${twice[name]} />`;
  const promised = !isDraft && html`<p class="help">These are promised to users, and stay as they are.</p>`;
  return html`
    <fieldset><legend>Campaign</legend>
      ${text('name', 'Name', { help: 'Shoppers read it.', input: { maxlength: 200 } })}
      ${isNew ? text('total_stock', 'Coupons to give out', { input: { inputmode: 'numeric' } })
    : html`<p class="help">The total changes by “Add or cut stock” on the campaign's page, with a reason.</p>`}
    </fieldset>
    <fieldset disabled=${!isDraft}><legend>Discount</legend>${promised}
      <div class="row">
        <${Field} id="kind" label="Kind"><${Choice} id="kind" value=${form.kind} change=${set('kind')} options=${KINDS} /><//>
        <${Field} id="currency" label="Currency" wrong=${wrong.currency}><${Text} id="currency" value=${form.currency} maxlength="3" size="4"
          change=${(value) => change({ currency: value.toUpperCase() })} /><//>
      </div>
      <div class="row">
        ${form.kind === 'percent_off' && text('percent', 'Per cent off', { help: '20 takes a fifth off.', input: { inputmode: 'decimal' } })}
        ${form.kind === 'amount_off' && text('amount', `Amount off, in ${form.currency}`, { help: 'For example 5.00', input: { inputmode: 'decimal' } })}
        ${form.kind === 'percent_off' && text('cap', `At most, in ${form.currency}`, { help: 'Empty: no bound.', input: { inputmode: 'decimal' } })}
        ${text('minimum', `For orders from, in ${form.currency}`, { help: 'Empty: every order.', input: { inputmode: 'decimal' } })}
      </div>
      <${Tick} id="stackable" checked=${form.stackable} change=${set('stackable')} label="May be used with other coupons in one order" />
    </fieldset>
    <fieldset><legend>When it can be claimed</legend>
      <p class="help">Times are those of ${zoneName}.</p>
      <div class="row">${at('starts', 'Opens')} ${at('ends', 'Closes')}</div>
    </fieldset>
    <fieldset disabled=${!isDraft}><legend>Who gets how many</legend>${promised}
      <div class="row">
        ${text('per_user_limit', 'Each user at most', { help: '0: no limit.', input: { inputmode: 'numeric' } })}
        ${text('max_per_claim', 'In one claim at most', { input: { inputmode: 'numeric' } })}
      </div>
    </fieldset>
    <${Validity} form=${form} change=${change} wrong=${wrong} at=${at} isDraft=${isDraft} />
    <fieldset disabled=${!isDraft}><legend>Payment</legend>${promised}
      <${Span} name="hold" label="Held until it is paid for, at most" form=${form} change=${change} wrong=${wrong.hold} help="0: users have the coupon at once." />
      ${Number(form.hold.number) > 0 && html`<div class="row">
        ${text('lapses_allowed', 'Refuse users after lapses', { help: '0: never.', input: { inputmode: 'numeric' } })}
        <${Field} id="returned_stock" label="What lapses"><${Choice} id="returned_stock" value=${form.returned_stock} change=${set('returned_stock')}
          options=${[['resell', 'is sold again'], ['retire', 'leaves the total']]} /><//>
      </div>`}
    </fieldset>
    <fieldset><legend>How it works</legend>
      <${Field} id="claim_mode" label="A claim is answered"><${Choice} id="claim_mode" value=${form.claim_mode} change=${set('claim_mode')} options=${MODES} /><//>
      ${form.claim_mode !== 'direct' && html`<${Field} id="accept_after" label="A queued claim is answered once"><${Choice} id="accept_after" value=${form.accept_after}
        change=${set('accept_after')} options=${AFTER} /><//>`}
      <${Tick} id="self_redeem" checked=${form.self_redeem} change=${set('self_redeem')} label="Shoppers use it themselves, at a till" help="Otherwise only the shop redeems it." />
    </fieldset>`;
}

/** A time with its zone, and how far that is from UTC where its name does not say it. */
function zoned(at) {
  const text = time(at, 'minute');
  return /(UTC|GMT)\S*$/.test(text) ? text : `${text}, ${offset(at)}`;
}

/** A time here, with what it is in UTC; of an hour that comes twice, which. */
function Instant({ name, label, form, change, wrong, either }) {
  const note = either && html`<span class="field-note">This hour comes twice.${' '}
    <select aria-label="Which of both" value=${form.later[name] ? 'later' : 'earlier'} onChange=${(event) => change({ later: { ...form.later, [name]: event.target.value === 'later' } })}>
      <option value="earlier">The first, ${offset(either[0])}</option><option value="later">The second, ${offset(either[1])}</option>
    </select></span>`;
  const shown = new Date(form[name]);
  const help = Number.isNaN(shown.getTime()) ? null : zoned(shown);
  return html`<${Field} id=${name} label=${label} wrong=${wrong} help=${either ? null : help} note=${note}>
    <input id=${name} type="datetime-local" step="1" value=${form[name]} aria-describedby="${name}-help" onInput=${(event) => change({ [name]: event.target.value })} />
  <//>`;
}

function Span({ name, label, form, change, wrong, help }) {
  const part = (more) => change({ [name]: { ...form[name], ...more } });
  return html`<${Field} id=${name} label=${label} wrong=${wrong} help=${help}><div class="joined">
    <${Text} id=${name} value=${form[name].number} change=${(number) => part({ number })} inputmode="decimal" size="6" />
    <select aria-label="Unit" value=${form[name].unit} onChange=${(event) => part({ unit: event.target.value })}>
      ${UNITS.map(([unit, word]) => html`<option key=${unit} value=${unit} selected=${unit === form[name].unit}>${word}</option>`)}
    </select></div><//>`;
}

function Validity({ form, change, wrong, at, isDraft }) {
  const choice = (word, label) => html`<label class="radio"><input type="radio" name="validity" value=${word} checked=${form.validity === word}
    onChange=${() => change({ validity: word })} /> ${label}</label>`;
  return html`<fieldset><legend>How long a coupon is valid</legend>
    <div class="row">${choice('for', 'From its claim on')} ${choice('between', 'Between two dates')}</div>
    ${form.validity === 'for' ? html`<${Span} name="valid_for" label="Valid for" form=${form} change=${change} wrong=${wrong.valid_for} />`
    : html`<div class="row">${at('valid_from', 'Valid from')} ${at('valid_until', 'Valid until')}</div>`}
    ${!isDraft && html`<${Tick} id="issued" checked=${form.issued === 'follow'} change=${(follows) => change({ issued: follows ? 'follow' : 'keep' })}
      label="Coupons that users have follow a change of the validity" />`}
  </fieldset>`;
}
